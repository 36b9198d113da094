/* Any text is refused with a reason or gives names that are safe, within the limit, and the same
 * set again after formatting. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct hostlist *list)
{
    if (list->count)
        qsort(list->names, list->count, sizeof *list->names, by_name);
}

/* Drops duplicates from a sorted list. */
static size_t unique(struct hostlist *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (kept && strcmp(list->names[kept - 1], list->names[i]) == 0)
            free(list->names[i]);
        else
            list->names[kept++] = list->names[i];
    }
    list->count = kept;
    return kept;
}

static void check_round_trip(struct hostlist *list)
{
    struct hostlist again = {0};
    struct err err = {0};
    AUTO(free_str) char *text = hostlist_format((const char *const *)list->names, list->count);
    require(hostlist_parse(text, &again, &err) == 0);
    AUTO(free_str) char *second = hostlist_format((const char *const *)again.names, again.count);
    require(strcmp(text, second) == 0);
    bool had_duplicate = hostlist_duplicate(list) != NULL;
    size_t count = list->count;
    sort(list);
    sort(&again);
    require(unique(list) == again.count);
    require(had_duplicate == (count != list->count));
    for (size_t i = 0; i < again.count; i++)
        require(strcmp(list->names[i], again.names[i]) == 0);
    hostlist_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Cross products of a few bytes reach the limit; longer texts only repeat that. */
    if (size > 256)
        return 0;
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    struct hostlist list = {0};
    struct err err = {0};
    if (hostlist_parse(text, &list, &err) != 0) {
        require(err.kind == ERR_DATA && err.text[0] && list.count == 0 && !list.names);
        return 0;
    }
    require(list.count <= HOSTLIST_MAX_HOSTS);
    for (size_t i = 0; i < list.count; i++) {
        const char *name = list.names[i];
        require(name[0] && name[0] != '-' && name[0] != '.' && strlen(name) <= 253);
        require(name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._")] == '\0');
    }
    check_round_trip(&list);
    hostlist_release(&list);
    return 0;
}
