#include "provision/yaml.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/fs.h"
#include "common/jsonx.h"
#include "common/util.h"
#include "provision/yaml_scalar.h"

enum { KEY_MAX_BYTES = 1024, ANCHORS_MAX = 1000 };

struct anchor {
    char *name;
    json_t *value;
    size_t nodes; /* values inside, itself included */
};

struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    const char *source, *text;
    size_t len;
    struct source_map *map;
    struct strbuf pointer; /* of the value being read */
    struct anchor *anchors;
    size_t anchor_count;
    size_t nodes;
    int depth;
};

static int read_value(struct reader *r, json_t **out, struct err *err);

static int line_of(const yaml_mark_t *mark)
{
    return mark->line >= INT_MAX ? INT_MAX : (int)mark->line + 1;
}

static int fail_at(const struct reader *r, const yaml_mark_t *mark, struct err *err,
                   const char *text)
{
    return err_set(err, ERR_USAGE, "%s:%d:%zu: %s", r->source, line_of(mark), mark->column + 1,
                   text);
}

static int fail_reader(const struct reader *r, struct err *err)
{
    int line = 1;
    for (size_t i = 0; i < r->parser.problem_offset && i < r->len; i++)
        line += r->text[i] == '\n';
    return err_set(err, ERR_USAGE, "%s:%d: %s", r->source, line,
                   r->parser.problem ? r->parser.problem : "not readable as text");
}

/* What libyaml says, with the tab named where one is at fault: libyaml calls it a character that
 * cannot start a token. */
static int fail_syntax(const struct reader *r, struct err *err)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return err_set(err, ERR_NOMEM, "%s: out of memory", r->source);
    if (p->error == YAML_READER_ERROR)
        return fail_reader(r, err);
    const yaml_mark_t *mark = &p->problem_mark;
    if (mark->index < r->len && r->text[mark->index] == '\t')
        return fail_at(r, mark, err, "a tab cannot indent YAML; use blanks");
    AUTO(free_str) char *text = NULL;
    if (p->context)
        text = str_printf("%s %s (line %d)", p->context, p->problem, line_of(&p->context_mark));
    else
        text = str_dup(p->problem ? p->problem : "not YAML");
    return fail_at(r, mark, err, text);
}

/* Read the next event into r->event. */
static int next_event(struct reader *r, struct err *err)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->parser, &r->event))
        return fail_syntax(r, err);
    r->has_event = true;
    return 0;
}

static int count_nodes(struct reader *r, size_t nodes, struct err *err)
{
    r->nodes += nodes;
    if (r->nodes <= YAML_MAX_NODES)
        return 0;
    AUTO(free_str)
    char *text = str_printf("more than %d values (aliases count as often as they "
                            "are used)",
                            YAML_MAX_NODES);
    return fail_at(r, &r->event.start_mark, err, text);
}

/* Append "/step" to the pointer; returns the length to go back to. */
static size_t push(struct reader *r, const char *step)
{
    size_t len = r->pointer.len;
    AUTO(free_str) char *tail = source_pointer_key("", step);
    strbuf_puts(&r->pointer, tail);
    source_map_add(r->map, r->pointer.data, line_of(&r->event.start_mark));
    return len;
}

static void pop(struct reader *r, size_t len)
{
    r->pointer.len = len;
    r->pointer.data[len] = '\0';
}

static int read_alias(struct reader *r, json_t **out, struct err *err)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    for (size_t i = r->anchor_count; i-- > 0;) {
        const struct anchor *a = &r->anchors[i];
        if (strcmp(a->name, name) != 0)
            continue;
        if (count_nodes(r, a->nodes, err) != 0)
            return -1;
        *out = json_deep_copy(a->value);
        return *out ? 0 : err_set(err, ERR_NOMEM, "%s: out of memory", r->source);
    }
    AUTO(free_str) char *text = str_printf("alias *%.64s names no anchor before it", name);
    return fail_at(r, &r->event.start_mark, err, text);
}

static void keep_anchor(struct reader *r, char *name, json_t *value, size_t nodes)
{
    r->anchors = mem_grow(r->anchors, r->anchor_count + 1, sizeof *r->anchors);
    r->anchors[r->anchor_count++] = (struct anchor){name, json_incref(value), nodes};
}

static int read_scalar(struct reader *r, json_t **out, struct err *err)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    if (count_nodes(r, 1, err) != 0)
        return -1;
    if (memchr(text, '\0', len))
        return fail_at(r, &r->event.start_mark, err, "text holds the character U+0000");
    const char *why = NULL;
    if (r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        *out = yaml_scalar(text, &why);
    else
        *out = json_stringn(text, len);
    if (*out)
        return 0;
    return fail_at(r, &r->event.start_mark, err, why ? why : "text is not valid UTF-8");
}

static int read_sequence(struct reader *r, json_t **out, struct err *err)
{
    if (count_nodes(r, 1, err) != 0)
        return -1;
    json_auto_t *list = json_array();
    for (size_t i = 0;; i++) {
        if (next_event(r, err) != 0)
            return -1;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        char step[24];
        snprintf(step, sizeof step, "%zu", i);
        size_t len = push(r, step);
        json_t *item = NULL;
        if (read_value(r, &item, err) != 0)
            return -1;
        pop(r, len);
        jsonx_append(list, item);
    }
    *out = STEAL(list);
    return 0;
}

/* Check the key event and return a copy of the key in *key. */
static int read_key(struct reader *r, const json_t *object, char **key, struct err *err)
{
    const yaml_mark_t *mark = &r->event.start_mark;
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_at(r, mark, err, "a key must be a word, not a list, a mapping or an alias");
    const char *text = (const char *)r->event.data.scalar.value;
    size_t len = r->event.data.scalar.length;
    if (r->event.data.scalar.tag)
        return fail_at(r, mark, err, "tags (!...) are not supported");
    if (len == 0)
        return fail_at(r, mark, err, "a key is empty");
    if (len > KEY_MAX_BYTES || memchr(text, '\0', len))
        return fail_at(r, mark, err, "a key is longer than 1024 bytes or holds U+0000");
    if (strcmp(text, "<<") == 0 && r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return fail_at(r, mark, err,
                       "merge keys (<<) are not supported; write the keys out or use groups");
    if (json_object_get(object, text)) {
        AUTO(free_str) char *pointer = source_pointer_key(r->pointer.data, text);
        AUTO(free_str)
        char *why = str_printf("key '%.64s' is given twice, first in line %d", text,
                               source_map_line(r->map, pointer));
        return fail_at(r, mark, err, why);
    }
    *key = str_dup(text);
    return 0;
}

static int read_mapping(struct reader *r, json_t **out, struct err *err)
{
    if (count_nodes(r, 1, err) != 0)
        return -1;
    json_auto_t *object = json_object();
    for (;;) {
        if (next_event(r, err) != 0)
            return -1;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            break;
        AUTO(free_str) char *key = NULL;
        if (read_key(r, object, &key, err) != 0)
            return -1;
        size_t len = push(r, key);
        if (next_event(r, err) != 0)
            return -1;
        json_t *value = NULL;
        if (read_value(r, &value, err) != 0)
            return -1;
        pop(r, len);
        jsonx_set(object, key, value);
    }
    *out = STEAL(object);
    return 0;
}

struct node_head {
    const unsigned char *anchor, *tag;
    int (*read)(struct reader *r, json_t **out, struct err *err);
};

static struct node_head head_of(const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return (struct node_head){e->data.scalar.anchor, e->data.scalar.tag, read_scalar};
    case YAML_SEQUENCE_START_EVENT:
        return (struct node_head){e->data.sequence_start.anchor, e->data.sequence_start.tag,
                                  read_sequence};
    case YAML_MAPPING_START_EVENT:
        return (struct node_head){e->data.mapping_start.anchor, e->data.mapping_start.tag,
                                  read_mapping};
    case YAML_ALIAS_EVENT:
        return (struct node_head){NULL, NULL, read_alias};
    default:
        return (struct node_head){NULL, NULL, NULL};
    }
}

/* The value whose first event is r->event. */
static int read_value(struct reader *r, json_t **out, struct err *err)
{
    struct node_head head = head_of(&r->event);
    const yaml_mark_t mark = r->event.start_mark;
    if (!head.read)
        return fail_at(r, &mark, err, "a value is missing here");
    if (head.tag)
        return fail_at(r, &mark, err,
                       "tags (!...) are not supported; quote the value to keep it text");
    if (r->depth >= YAML_MAX_DEPTH)
        return fail_at(r, &mark, err, "nested more than 64 levels deep");
    if (head.anchor && r->anchor_count >= ANCHORS_MAX)
        return fail_at(r, &mark, err, "more than 1000 anchors");
    AUTO(free_str) char *anchor = head.anchor ? str_dup((const char *)head.anchor) : NULL;
    size_t before = r->nodes;
    r->depth++;
    int rc = head.read(r, out, err);
    r->depth--;
    if (rc == 0 && anchor)
        keep_anchor(r, STEAL(anchor), *out, r->nodes - before);
    return rc;
}

/* Stream start, one document, stream end. */
static int read_stream(struct reader *r, json_t **out, struct err *err)
{
    if (next_event(r, err) != 0 || next_event(r, err) != 0)
        return -1;
    if (r->event.type == YAML_STREAM_END_EVENT) {
        *out = json_null();
        return 0;
    }
    if (next_event(r, err) != 0)
        return -1;
    source_map_add(r->map, "", line_of(&r->event.start_mark));
    json_auto_t *value = NULL;
    if (read_value(r, &value, err) != 0)
        return -1;
    if (next_event(r, err) != 0 || next_event(r, err) != 0) /* document end, then what follows */
        return -1;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return fail_at(r, &r->event.start_mark, err,
                       "a second document begins here; one file is one document");
    *out = STEAL(value);
    return 0;
}

static void reader_release(struct reader *r)
{
    if (r->has_event)
        yaml_event_delete(&r->event);
    for (size_t i = 0; i < r->anchor_count; i++) {
        free(r->anchors[i].name);
        json_decref(r->anchors[i].value);
    }
    free(r->anchors);
    strbuf_release(&r->pointer);
    yaml_parser_delete(&r->parser);
}

int yaml_parse(const char *text, size_t len, const char *source, struct source_map *map,
               json_t **out, struct err *err)
{
    if (len > YAML_MAX_BYTES)
        return err_set(err, ERR_USAGE, "%s: %zu bytes, the limit is %d", source, len,
                       YAML_MAX_BYTES);
    AUTO(source_map_release) struct source_map *own = map ? NULL : source_map_create(source);
    AUTO(reader_release)
    struct reader r = {.source = source, .text = text, .len = len, .map = map ? map : own};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(err, ERR_NOMEM, "%s: out of memory", source);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    strbuf_puts(&r.pointer, "");
    return read_stream(&r, out, err);
}

int yaml_load(const char *path, struct source_map *map, json_t **out, struct err *err)
{
    AUTO(free_str) char *text = NULL;
    size_t len = 0;
    if (fs_read(path, YAML_MAX_BYTES, &text, &len, err) != 0)
        return -1;
    return yaml_parse(text, len, path, map, out, err);
}
