#include "provision/quote.h"

#include <string.h>

static bool is_plain(const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "%+,-./:@_";
    return word[0] != '\0' && word[strspn(word, safe)] == '\0';
}

void quote_word(struct strbuf *out, const char *word)
{
    if (is_plain(word)) {
        strbuf_puts(out, word);
        return;
    }
    strbuf_puts(out, "'");
    for (const char *quote; (quote = strchr(word, '\'')); word = quote + 1) {
        strbuf_add(out, word, (size_t)(quote - word));
        strbuf_puts(out, "'\\''");
    }
    strbuf_puts(out, word);
    strbuf_puts(out, "'");
}

char *quote_argv(const char *const argv[])
{
    struct strbuf out = {0};
    strbuf_puts(&out, "");
    for (size_t i = 0; argv[i]; i++) {
        if (i > 0)
            strbuf_puts(&out, " ");
        quote_word(&out, argv[i]);
    }
    return out.data;
}
