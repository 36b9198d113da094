#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/journal.h"
#include "common/jsonx.h"
#include "common/util.h"

/* "seq" of the first line; 0 when that line is torn or no begin line. */
static int64_t read_seq(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, f);
    struct err ignored = {0};
    json_t *begin = NULL;
    int64_t seq = 0;
    if (n > 0 && jsonx_parse(line, (size_t)n, path, &begin, &ignored) == 0)
        seq = jsonx_int_or(begin, "seq", 0);
    json_decref(begin);
    free(line);
    fclose(f);
    return seq;
}

static int newest_first(const void *a, const void *b)
{
    const struct journal_list_row *x = a, *y = b;
    return (x->seq < y->seq) - (x->seq > y->seq);
}

int journal_list_read(const struct resources_env *env, struct journal_list *list, struct err *err)
{
    AUTO(free_str) char *dir = str_printf("%s/txn", env->state_dir);
    char **names = NULL;
    size_t count = 0;
    *list = (struct journal_list){0};
    if (fs_list_at(env->root, dir, &names, &count, err) != 0)
        return -1;
    list->rows = mem_zero(count + 1, sizeof *list->rows);
    for (size_t i = 0; i < count; i++) {
        if (!str_has_suffix(names[i], ".jsonl"))
            continue;
        AUTO(free_str) char *below = str_printf("txn/%s", names[i]);
        AUTO(free_str) char *path = journal_path(env, below, err);
        if (!path)
            break;
        struct journal_list_row *row = &list->rows[list->count++];
        row->seq = read_seq(path);
        row->id = str_printf("%.*s", (int)(strlen(names[i]) - strlen(".jsonl")), names[i]);
    }
    fs_list_free(names, count);
    if (err->kind != ERR_NONE) {
        journal_list_release(list);
        return -1;
    }
    qsort(list->rows, list->count, sizeof *list->rows, newest_first);
    return 0;
}

void journal_list_release(struct journal_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->rows[i].id);
    free(list->rows);
    *list = (struct journal_list){0};
}
