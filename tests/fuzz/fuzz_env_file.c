/* Merging variables into any file: idempotent, other lines kept, and each variable is there once.
 * Input: a format letter, "NAME=value" up to the first newline, then the file. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agents/resources/env_text.h"
#include "common/util.h"

static void require(int condition)
{
    if (!condition)
        abort();
}

/* Every line of the text that cannot mean the variable must be in the result. */
static void check_kept(const char *text, const char *merged, const char *name)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        AUTO(free_str) char *line = str_printf("%.*s", (int)len, text);
        AUTO(free_str) char *whole = str_printf("%s\n", line);
        if (!strstr(line, name))
            require(strstr(merged, whole) != NULL);
        text += len + (text[len] == '\n');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    if (size < 2)
        return 0;
    enum env_format format =
        (enum env_format)(1 + (unsigned char)text[0] % (ENV_FORMAT__COUNT - 1));
    char *rest = text + 1;
    char *name = strsep(&rest, "\n");
    char *value = strchr(name, '=');
    if (value)
        *value++ = '\0';
    struct err err = {0};
    if (env_text_check(format, name, value ? value : "", &err) != 0) {
        require(err.kind == ERR_USAGE && err.text[0]);
        return 0;
    }
    json_t *set = json_object(), *string = value ? json_string(value) : json_null();
    if (string && json_object_set_new(set, name, string) == 0) {
        AUTO(free_str) char *once = env_text_merge(format, rest ? rest : "", set);
        AUTO(free_str) char *twice = env_text_merge(format, once, set);
        require(strcmp(once, twice) == 0);
        check_kept(rest ? rest : "", once, name);
        require(!value || strstr(once, name));
    }
    json_decref(set);
    return 0;
}
