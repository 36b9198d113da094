#include "provision/source_map.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"

/* A longer pointer is not kept: its line is then that of the value around it.  Deep nesting of long
 * keys would otherwise cost the square of the file's size. */
enum { POINTER_MAX_BYTES = 512 };

struct source_map {
    char *file;
    json_t *lines; /* pointer -> line */
};

struct source_map *source_map_create(const char *file)
{
    struct source_map *map = mem_zero(1, sizeof *map);
    map->file = str_dup(file);
    map->lines = json_object();
    if (!map->lines)
        abort();
    return map;
}

void source_map_destroy(struct source_map *map)
{
    if (!map)
        return;
    json_decref(map->lines);
    free(map->file);
    free(map);
}

void source_map_release(struct source_map **map)
{
    source_map_destroy(*map);
    *map = NULL;
}

void source_map_add(struct source_map *map, const char *pointer, int line)
{
    if (strlen(pointer) <= POINTER_MAX_BYTES)
        jsonx_set_int(map->lines, pointer, line);
}

const char *source_map_file(const struct source_map *map)
{
    return map->file;
}

int source_map_line(const struct source_map *map, const char *pointer)
{
    AUTO(free_str) char *path = str_dup(pointer);
    for (;;) {
        int64_t line = jsonx_int_or(map->lines, path, 0);
        if (line > 0)
            return (int)line;
        char *slash = strrchr(path, '/');
        if (!slash)
            return 0;
        *slash = '\0';
    }
}

char *source_pointer_key(const char *pointer, const char *key)
{
    struct strbuf b = {0};
    strbuf_puts(&b, pointer);
    strbuf_puts(&b, "/");
    for (; *key; key++) {
        if (*key == '~')
            strbuf_puts(&b, "~0");
        else if (*key == '/')
            strbuf_puts(&b, "~1");
        else
            strbuf_add(&b, key, 1);
    }
    return b.data;
}

char *source_pointer_index(const char *pointer, size_t index)
{
    return str_printf("%s/%zu", pointer, index);
}

/* One step of a pointer: "[3]" for an index, else ".key" (no dot in front of the first). */
static void put_step(struct strbuf *b, const char *step, size_t len)
{
    bool number = len > 0;
    for (size_t i = 0; i < len; i++)
        number = number && step[i] >= '0' && step[i] <= '9';
    if (number) {
        strbuf_printf(b, "[%.*s]", (int)len, step);
        return;
    }
    if (b->len > 0)
        strbuf_puts(b, ".");
    for (size_t i = 0; i < len; i++) {
        char c = step[i];
        if (c == '~' && i + 1 < len)
            c = step[++i] == '1' ? '/' : '~';
        strbuf_add(b, &c, 1);
    }
}

char *source_pointer_text(const char *pointer)
{
    struct strbuf b = {0};
    strbuf_puts(&b, "");
    while (*pointer == '/') {
        size_t len = strcspn(++pointer, "/");
        put_step(&b, pointer, len);
        pointer += len;
    }
    return b.data;
}

int source_err(const struct source_map *map, const char *pointer, struct err *err, const char *fmt,
               ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        abort();
    AUTO(free_str) char *owned = text;
    AUTO(free_str) char *where = source_pointer_text(pointer);
    int line = source_map_line(map, pointer);
    char number[16] = "";
    if (line > 0)
        snprintf(number, sizeof number, ":%d", line);
    return err_set(err, ERR_USAGE, "%s%s: %s%s%s", map->file, number, where, *where ? ": " : "",
                   owned);
}
