/* Any text is refused as a journal with a reason, or gives a log whose parts fit together and which
 * reads the same again from its good bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/journal.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const struct journal_log *log, size_t size)
{
    require(log->good_bytes <= size);
    require(log->begin || (log->count == 0 && !log->committed && !log->undone));
    require(!log->committed == !log->manifest);
    require(!log->rolling_back || log->committed);
    size_t resources = json_array_size(json_object_get(log->begin, "resources"));
    for (size_t i = 0; i < log->count; i++) {
        const struct journal_entry *e = &log->entries[i];
        require(e->index < resources && json_is_object(e->before) && json_is_object(e->want));
        require(i + 1 == log->count || (e->done && e->index < log->entries[i + 1].index));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct journal_log log, again;
    struct err err = {0};
    if (journal_parse(text, size, "fuzz", &log, &err) != 0) {
        require(err.kind == ERR_DATA && err.text[0] && !log.begin && !log.entries);
        return 0;
    }
    check(&log, size);
    require(journal_parse(text, log.good_bytes, "fuzz", &again, &err) == 0);
    require(again.count == log.count && again.good_bytes == log.good_bytes);
    require(again.committed == log.committed && again.undone == log.undone);
    journal_log_release(&again);
    journal_log_release(&log);
    return 0;
}
