/* Xid and SXid lines, as /dev/kmsg and dmesg give them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/gpu/gpu_klog.h"
#include "common/util.h"

static void lines_are_told_apart(void **state)
{
    static const struct {
        const char *record;
        bool found, is_switch;
        int number;
        unsigned bus;
        const char *text;
    } rows[] = {
        {"4,1203,8812,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=12, GPU has fallen off the bus.", true,
         false, 79, 0x1b, "NVRM: Xid (PCI:0000:1b:00): 79, pid=12, GPU has fallen off the bus."},
        {"NVRM: Xid (PCI:0000:9d:00.0): 63, Row Remapper: New row", true, false, 63, 0x9d, NULL},
        {"[ 12.5] NVRM: Xid (PCI:0000:06:00): 31, pid=1", true, false, 31, 6, NULL},
        {"3,9,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32", true, true,
         12028, 0xc1, NULL},
        {"6,1,2,-;NVRM: loading NVIDIA UNIX Open Kernel Module", false, false, 0, 0, NULL},
        {"NVRM: Xid (PCI:0000:1b:00) 79", false, false, 0, 0, NULL},
        {"NVRM: Xid (PCI:zz:1b:00): 79", false, false, 0, 0, NULL},
        {"NVRM: Xid (PCI:0000:1b:00): -5", false, false, 0, 0, NULL},
        {"NVRM: Xid (PCI:", false, false, 0, 0, NULL},
        {"", false, false, 0, 0, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct gpu_klog_line line = {0};
        if (gpu_klog_parse(rows[i].record, &line) != rows[i].found)
            fail_msg("%s", rows[i].record);
        if (!rows[i].found)
            continue;
        assert_int_equal(line.number, rows[i].number);
        assert_int_equal(line.bus, rows[i].bus);
        assert_int_equal(line.is_switch, rows[i].is_switch);
        if (rows[i].text)
            assert_string_equal(line.text, rows[i].text);
    }
}

/* More lines than are kept: the count is of all, the newest stay; a log that starts late says so.
 */
static void a_long_log_keeps_the_newest(void **state)
{
    char dir[] = "/tmp/muster-klog-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct err err = {0};
    struct fs_root root;
    struct strbuf text = {0};
    AUTO(free_str) char *dev = str_printf("%s/dev", dir);
    AUTO(free_str) char *path = str_printf("%s/dev/kmsg", dir);
    for (int i = 0; i < GPU_KLOG_MAX_LINES + 10; i++)
        strbuf_printf(&text, "4,%d,1,-;NVRM: Xid (PCI:0000:1b:00): %d, x\n", i + 5, i);
    assert_int_equal(fs_mkdirs(dev, 0755, &err), 0);
    assert_int_equal(fs_write_atomic(path, text.data, text.len, 0644, &err), 0);
    assert_int_equal(fs_root_open(&root, dir, &err), 0);
    struct gpu_klog *log = mem_zero(1, sizeof *log);
    assert_int_equal(gpu_klog_read(&root, log, &err), 0);
    assert_false(log->complete);
    assert_true(log->count >= GPU_KLOG_MAX_LINES);
    assert_int_equal(log->lines[GPU_KLOG_MAX_LINES - 1].number, GPU_KLOG_MAX_LINES + 9);
    assert_int_equal(fs_remove_tree(dir, &err), 0);
    assert_int_equal(gpu_klog_read(&root, log, &err), -1);
    free(log);
    strbuf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_told_apart),
        cmocka_unit_test(a_long_log_keeps_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
