/* Any words as a command line of opensm: each finding has a text, and a right form is offered. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/opensm_argv.h"

enum { MAX_WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    const char *words[MAX_WORDS];
    size_t count = 0, i;
    char *rest = NULL;
    for (char *w = strtok_r(text, " \n", &rest); w && count < MAX_WORDS;
         w = strtok_r(NULL, " \n", &rest))
        words[count++] = w;
    json_auto_t *findings = json_array();
    AUTO(free_str) char *right = opensm_argv_explain(words, count, findings);
    json_t *f;
    if (!str_has_prefix(right, "opensm "))
        abort();
    json_array_foreach(findings, i, f) if (!*jsonx_str_or(f, "text", "")) abort();
    return 0;
}
