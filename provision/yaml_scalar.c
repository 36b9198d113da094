#include "provision/yaml_scalar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum scalar_word { WORD_NULL, WORD_TRUE, WORD_FALSE, WORD_REFUSED };

static const struct {
    const char *text;
    enum scalar_word word;
} words[] = {
    {"", WORD_NULL},         {"~", WORD_NULL},        {"null", WORD_NULL},
    {"Null", WORD_NULL},     {"NULL", WORD_NULL},     {"true", WORD_TRUE},
    {"True", WORD_TRUE},     {"TRUE", WORD_TRUE},     {"false", WORD_FALSE},
    {"False", WORD_FALSE},   {"FALSE", WORD_FALSE},   {".inf", WORD_REFUSED},
    {"-.inf", WORD_REFUSED}, {"+.inf", WORD_REFUSED}, {".nan", WORD_REFUSED},
};

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

static const char *skip_sign(const char *s)
{
    return s + (*s == '+' || *s == '-');
}

/* A leading zero in front of another digit means text: file modes and padded host numbers. */
static bool has_padding(const char *s)
{
    return s[0] == '0' && digits(s) > 1;
}

static bool is_integer(const char *text)
{
    if (str_has_prefix(text, "0x"))
        return text[2] && text[2 + strspn(text + 2, "0123456789abcdefABCDEF")] == '\0';
    const char *s = skip_sign(text);
    return digits(s) > 0 && s[digits(s)] == '\0' && !has_padding(s);
}

static bool is_real(const char *text)
{
    const char *s = skip_sign(text);
    if (has_padding(s))
        return false;
    size_t whole = digits(s), part = 0;
    s += whole;
    if (*s == '.') {
        part = digits(++s);
        s += part;
    }
    if (whole + part == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s = skip_sign(s + 1);
        if (digits(s) == 0)
            return false;
        s += digits(s);
    }
    return *s == '\0';
}

static json_t *make_integer(const char *text, const char **why)
{
    errno = 0;
    long long value = strtoll(text, NULL, str_has_prefix(text, "0x") ? 16 : 10);
    if (errno == ERANGE) {
        *why = "the integer does not fit 64 bits; quote it if it is text";
        return NULL;
    }
    return json_integer(value);
}

static json_t *make_real(const char *text, const char **why)
{
    double value = strtod(text, NULL);
    if (!isfinite(value)) {
        *why = "the number is too large; quote it if it is text";
        return NULL;
    }
    return json_real(value);
}

static json_t *make_word(enum scalar_word word, const char **why)
{
    switch (word) {
    case WORD_NULL:
        return json_null();
    case WORD_TRUE:
        return json_true();
    case WORD_FALSE:
        return json_false();
    case WORD_REFUSED:
        break;
    }
    *why = "infinity and NaN are not values; quote it if it is text";
    return NULL;
}

json_t *yaml_scalar(const char *text, const char **why)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(text, words[i].text) == 0)
            return make_word(words[i].word, why);
    if (is_integer(text))
        return make_integer(text, why);
    if (is_real(text))
        return make_real(text, why);
    return json_string(text);
}

bool yaml_scalar_is_plain(const char *text)
{
    static const char special[] = "-?:,[]{}#&*!|>'\"%@`~ ";
    if (!*text || strchr(special, *text) || strpbrk(text, ":#,[]{}\n\t\\\""))
        return false;
    size_t len = strlen(text);
    if (text[len - 1] == ' ')
        return false;
    const char *why = NULL;
    json_auto_t *value = yaml_scalar(text, &why);
    return json_is_string(value);
}
