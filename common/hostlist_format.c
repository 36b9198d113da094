/* The bracket form of a set of names: each name is split into texts and numbers, and names that
 * differ in one number are folded, from the last number to the first. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/util.h"

enum { MAX_NUMBERS = 8, MAX_DIGITS = 15 };

static const char gap = '\1'; /* stands for a number; no name holds it */

/* What one name, or several that were folded, look like.  axis[i] is what stands for the i-th
 * number: "7", or after folding "001-004,7". */
struct box {
    const char *first; /* borrowed: the first name in it, for the order */
    char *skeleton;    /* the name with a gap for each number */
    char *axis[MAX_NUMBERS];
    size_t numbers;
    size_t fold; /* the axis that is folded now, for the comparison */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Natural order: runs of digits compare by value, then by length, so that gpu9 < gpu10 < gpu011. */
static int natural(const char *a, const char *b)
{
    while (*a && *b) {
        if (!is_digit(*a) || !is_digit(*b)) {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++;
            b++;
            continue;
        }
        size_t zeros_a = strspn(a, "0"), zeros_b = strspn(b, "0");
        a += zeros_a;
        b += zeros_b;
        size_t len_a = strspn(a, "0123456789"), len_b = strspn(b, "0123456789");
        if (len_a != len_b)
            return len_a < len_b ? -1 : 1;
        int order = strncmp(a, b, len_a);
        if (order)
            return order;
        if (zeros_a != zeros_b)
            return zeros_a < zeros_b ? -1 : 1;
        a += len_a;
        b += len_b;
    }
    return (*a != '\0') - (*b != '\0');
}

static int by_natural(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int order = natural(x, y);
    return order ? order : strcmp(x, y);
}

static void split(struct box *box, const char *name)
{
    struct strbuf skeleton = {0};
    *box = (struct box){.first = name};
    strbuf_puts(&skeleton, "");
    while (*name) {
        size_t digits = strspn(name, "0123456789");
        if (digits > 0 && digits <= MAX_DIGITS && box->numbers < MAX_NUMBERS) {
            box->axis[box->numbers++] = str_printf("%.*s", (int)digits, name);
            strbuf_add(&skeleton, &gap, 1);
        } else {
            digits = digits ? digits : 1;
            strbuf_add(&skeleton, name, digits);
        }
        name += digits;
    }
    box->skeleton = skeleton.data;
}

static void box_release(struct box *box)
{
    free(box->skeleton);
    for (size_t i = 0; i < box->numbers; i++)
        free(box->axis[i]);
}

/* Equal in everything but the folded axis: 0. */
static int compare_rest(const struct box *a, const struct box *b)
{
    int order = strcmp(a->skeleton, b->skeleton);
    for (size_t i = 0; order == 0 && i < a->numbers; i++)
        if (i != a->fold)
            order = strcmp(a->axis[i], b->axis[i]);
    return order;
}

static int by_fold(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    int order = compare_rest(x, y);
    if (order == 0 && x->fold < x->numbers)
        order = natural(x->axis[x->fold], y->axis[y->fold]);
    return order ? order : by_natural(&x->first, &y->first);
}

static int by_first(const void *a, const void *b)
{
    const struct box *x = a, *y = b;
    return by_natural(&x->first, &y->first);
}

/* Does `next` follow when the range that began with `low` prints its numbers as wide as low? */
static bool follows(const char *low, const char *previous, const char *next)
{
    char expected[32];
    snprintf(expected, sizeof expected, "%0*lld", (int)strlen(low),
             strtoll(previous, NULL, 10) + 1);
    return strcmp(expected, next) == 0;
}

/* The boxes first..last-1 differ in one axis only: write it as ranges. */
static char *fold_axis(const struct box *boxes, size_t first, size_t last)
{
    size_t axis = boxes[first].fold;
    struct strbuf out = {0};
    for (size_t i = first; i < last;) {
        const char *low = boxes[i].axis[axis], *high = low;
        size_t end = i + 1;
        while (end < last && follows(low, high, boxes[end].axis[axis]))
            high = boxes[end++].axis[axis];
        strbuf_printf(&out, "%s%s", i > first ? "," : "", low);
        if (high != low)
            strbuf_printf(&out, "-%s", high);
        i = end;
    }
    return out.data;
}

/* Folds every run of boxes that agree in all but one axis; returns the new count. */
static size_t fold(struct box *boxes, size_t count, size_t axis)
{
    for (size_t i = 0; i < count; i++)
        boxes[i].fold = axis;
    qsort(boxes, count, sizeof *boxes, by_fold);
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && axis < boxes[i].numbers && compare_rest(&boxes[i], &boxes[end]) == 0)
            end++;
        struct box box = boxes[i];
        if (end > i + 1) {
            char *ranges = fold_axis(boxes, i, end);
            free(box.axis[axis]);
            box.axis[axis] = ranges;
            for (size_t j = i + 1; j < end; j++)
                box_release(&boxes[j]);
        }
        boxes[kept++] = box;
        i = end;
    }
    return kept;
}

static void print_box(const struct box *box, struct strbuf *out)
{
    size_t axis = 0;
    for (const char *p = box->skeleton; *p; p++) {
        if (*p != gap || axis == box->numbers)
            strbuf_add(out, p, 1);
        else if (strpbrk(box->axis[axis], ",-"))
            strbuf_printf(out, "[%s]", box->axis[axis++]);
        else
            strbuf_puts(out, box->axis[axis++]);
    }
}

char *hostlist_format(const char *const names[], size_t count)
{
    if (count == 0)
        return str_dup("");
    const char **sorted = mem_zero(count, sizeof *sorted);
    memcpy(sorted, names, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_natural);
    struct box *boxes = mem_zero(count, sizeof *boxes);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(sorted[i - 1], sorted[i]) != 0)
            split(&boxes[kept++], sorted[i]);
    for (size_t axis = MAX_NUMBERS; axis-- > 0;)
        kept = fold(boxes, kept, axis);
    qsort(boxes, kept, sizeof *boxes, by_first);
    struct strbuf out = {0};
    for (size_t i = 0; i < kept; i++) {
        if (i > 0)
            strbuf_puts(&out, ",");
        print_box(&boxes[i], &out);
        box_release(&boxes[i]);
    }
    free(boxes);
    free(sorted);
    return out.data;
}
