#include "resources_scratch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include "agents/resources/journal.h"

#define BEGIN                                                                                      \
    "{'v':1,'t':'begin','txn':'t','seq':1,'time':'2026-11-30T00:00:00.000Z',"                      \
    "'resources':[{},{},{}],'manifest':{}}\n"
#define INTENT(i) "{'t':'intent','i':" #i ",'before':{},'want':{'a':1}}\n"
#define DONE(i) "{'t':'done','i':" #i "}\n"
#define COMMIT "{'t':'commit','manifest':{}}\n"

static int parse(const char *text, struct journal_log *log, struct err *err)
{
    AUTO(free_str) char *copy = str_dup(text);
    for (char *p = strchr(copy, '\''); p; p = strchr(p, '\''))
        *p = '"';
    *err = (struct err){0};
    return journal_parse(copy, strlen(copy), "J", log, err);
}

static void test_states(void **state)
{
    static const struct {
        const char *text;
        size_t entries;
        bool begun, last_done, committed, rolling_back, undone;
        size_t torn_bytes;
    } vectors[] = {
        {"", 0, false, false, false, false, false, 0},
        {"{'v':1", 0, false, false, false, false, false, 6},
        {BEGIN, 0, true, false, false, false, false, 0},
        {BEGIN INTENT(0), 1, true, false, false, false, false, 0},
        {BEGIN INTENT(0) DONE(0) INTENT(2), 2, true, false, false, false, false, 0},
        {BEGIN INTENT(0) DONE(0) "{'t':'inten", 1, true, true, false, false, false, 11},
        {BEGIN INTENT(0) DONE(0) "\n", 1, true, true, false, false, false, 1},
        {BEGIN INTENT(0) DONE(0) COMMIT, 1, true, true, true, false, false, 0},
        {BEGIN COMMIT "{'t':'rollback','force':false}\n", 0, true, false, true, true, false, 0},
        {BEGIN INTENT(0) "{'t':'undo','i':0}\n{'t':'failed','i':0,'text':'x'}\n{'t':'undo','i':0}\n"
                         "{'t':'undone'}\n",
         1, true, false, false, false, true, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct journal_log log;
        struct err err;
        assert_ok(parse(vectors[i].text, &log, &err), err);
        assert_int_equal(log.begin != NULL, vectors[i].begun);
        assert_int_equal(log.count, vectors[i].entries);
        if (log.count)
            assert_int_equal(log.entries[log.count - 1].done, vectors[i].last_done);
        assert_int_equal(log.committed, vectors[i].committed);
        assert_int_equal(log.rolling_back, vectors[i].rolling_back);
        assert_int_equal(log.undone, vectors[i].undone);
        assert_int_equal(log.good_bytes, strlen(vectors[i].text) - vectors[i].torn_bytes);
        journal_log_release(&log);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *error;
    } vectors[] = {
        {INTENT(0), "journal J line 1: a line 'intent' cannot stand here"},
        {BEGIN BEGIN, "journal J line 2: a line 'begin' cannot stand here"},
        {BEGIN INTENT(3), "journal J line 2: resource 3 of 3"},
        {BEGIN INTENT(-1), "journal J line 2: resource -1 of 3"},
        {BEGIN INTENT(0) INTENT(1), "journal J line 3: a line 'intent' cannot stand here"},
        {BEGIN INTENT(1) DONE(1) INTENT(1), "journal J line 4: a line 'intent' cannot stand here"},
        {BEGIN DONE(0), "journal J line 2: a line 'done' cannot stand here"},
        {BEGIN INTENT(0) DONE(1), "journal J line 3: a line 'done' cannot stand here"},
        {BEGIN COMMIT COMMIT, "journal J line 3: a line 'commit' cannot stand here"},
        {BEGIN COMMIT INTENT(0), "journal J line 3: a line 'intent' cannot stand here"},
        {BEGIN "{'t':'rollback'}\n", "journal J line 2: a line 'rollback' cannot stand here"},
        {BEGIN "{'t':'undone'}\n{'t':'undone'}\n",
         "journal J line 3: a line 'undone' cannot stand here"},
        {BEGIN "{'t':'other'}\n", "journal J line 2: unknown line 'other'"},
        {"{'v':2,'t':'begin','txn':'t','resources':[],'manifest':{}}\n",
         "journal J line 1: version 2 is unknown; this program reads 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct journal_log log;
        struct err err;
        assert_int_equal(parse(vectors[i].text, &log, &err), -1);
        assert_int_equal(err.kind, ERR_DATA);
        assert_string_equal(err.text, vectors[i].error);
    }
    struct journal_log log;
    struct err err;
    assert_int_equal(parse(BEGIN "rubbish\n" COMMIT, &log, &err), -1);
    assert_non_null(strstr(err.text, "journal J line 2"));
}

static void test_ids(void **state)
{
    static const char *const good[] = {"a", "20261130T081500Z-3fa9", "a.b_c-d"};
    static const char *const bad[] = {
        "",    ".",   "..",   ".hidden",
        "a/b", "a b", "../x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct err err = {0};
        assert_ok(journal_check_id(good[i], &err), err);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        assert_int_equal(journal_check_id(bad[i], &err), -1);
        assert_int_equal(err.kind, ERR_USAGE);
    }
}

static void test_open_link(void **state)
{
    struct scratch s;
    scratch_open(&s);
    struct err err = {0};
    AUTO(free_str) char *none = NULL;
    AUTO(free_str) char *id = NULL;
    AUTO(free_str) char *bad = NULL;
    AUTO(free_str) char *link = scratch_path(&s, "/var/lib/muster/txn/open");
    assert_ok(journal_open_id(&s.env, &none, &err), err);
    assert_null(none);
    scratch_dir(&s, "/var/lib/muster/txn");
    assert_ok(journal_mark_open(&s.env, "t-1", &err), err);
    assert_ok(journal_open_id(&s.env, &id, &err), err);
    assert_string_equal(id, "t-1");
    assert_ok(journal_clear_open(&s.env, &err), err);
    assert_int_equal(symlink("../../../etc/passwd.jsonl", link), 0);
    assert_int_equal(journal_open_id(&s.env, &bad, &err), -1);
    assert_non_null(strstr(err.text, "is not a transaction's name"));
    scratch_close(&s);
}

/* A small file system on the state directory, in this test's own mount namespace. */
static bool small_disk(const struct scratch *s)
{
    AUTO(free_str) char *dir = scratch_path(s, "/var/lib/muster");
    return mount("small", dir, "tmpfs", 0, "size=64k") == 0;
}

/* Leave so many bytes (in pages) free. */
static void fill_disk(const struct scratch *s, size_t free_pages)
{
    AUTO(free_str) char *path = scratch_path(s, "/var/lib/muster/ballast");
    static const char page[4096] = {1};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    off_t size = 0;
    while (write(fd, page, sizeof page) == (ssize_t)sizeof page)
        size += sizeof page;
    assert_true(size > (off_t)(free_pages * sizeof page));
    assert_int_equal(ftruncate(fd, size - (off_t)(free_pages * sizeof page)), 0);
    close(fd);
}

/* Whatever the page at which the disk is full: the node is as before or as planned, and once there
 * is space again recovery has nothing to say or says what it did. */
static void test_full_disk(void **state)
{
    char content[3001];
    memset(content, 'x', sizeof content - 1);
    content[sizeof content - 1] = '\0';
    AUTO(free_str)
    char *text = str_printf("[{'kind':'file','id':'/etc/a','params':{'content':'%s'}},"
                            "{'kind':'file','id':'/etc/b','params':{'content':'%s'}}]",
                            content, content);
    size_t refused = 0, undone = 0, committed = 0;
    for (size_t pages = 0; pages < 12; pages++) {
        struct scratch s;
        scratch_open(&s);
        AUTO(free_str) char *dir = scratch_path(&s, "/var/lib/muster");
        AUTO(free_str) char *ballast = scratch_path(&s, "/var/lib/muster/ballast");
        assert_true(small_disk(&s));
        scratch_dir(&s, "/var/lib/muster/txn");
        scratch_put(&s, "/var/lib/muster/lock", "", 0600);
        fill_disk(&s, pages);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        json_t *resources = scratch_json(text), *data = NULL, *recovery = NULL;
        struct err err = {0};
        int rc = resources_apply(&s.env, "t", resources, &data, &err);
        const char *outcome = rc == 0 ? jsonx_str_or(data, "state", "") : "refused";
        unlink(ballast);
        struct err why = {0};
        assert_ok(resources_recover(&s.env, &recovery, &why), why);
        AUTO(free_str) char *after = scratch_snapshot(&s);
        const char *action = jsonx_str_or(recovery, "action", "");
        bool stands = strcmp(outcome, "committed") == 0 || strcmp(action, "finished") == 0;
        assert_int_equal(strcmp(before, after) == 0, !stands);
        if (rc != 0 && !stands) {
            refused++;
            assert_int_equal(err.kind, ERR_ENV);
            assert_non_null(strstr(err.text, "No space left on device"));
            assert_null(recovery);
        }
        undone += strcmp(outcome, "undone") == 0 || strcmp(outcome, "open") == 0;
        committed += stands;
        json_decref(recovery);
        json_decref(data);
        json_decref(resources);
        assert_int_equal(umount(dir), 0);
        scratch_close(&s);
    }
    assert_true(refused > 0);
    assert_true(undone > 0);
    assert_true(committed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ids),       cmocka_unit_test(test_open_link),
        cmocka_unit_test(test_full_disk),
    };
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        printf("skipped: no file system can be mounted here to be filled: %s\n", strerror(errno));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
