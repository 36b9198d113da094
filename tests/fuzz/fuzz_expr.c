/* Any text is refused with a column, or evaluates to the same value each time. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "provision/expr.h"

static const char scope_text[] = "{\"facts\":{\"rdma\":[{\"name\":\"mlx5_0\",\"port\":1}],\"n\":[1,"
                                 "2,[3]],\"s\":\"abc\",\"x\":1.5,"
                                 "\"nil\":null,\"t\":true},\"vars\":{\"a\":1,\"b\":\"x\",\"l\":[]},"
                                 "\"fabric\":{\"kind\":\"roce\"}}";

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check(const struct expr *e, const json_t *scope)
{
    struct err first = {0}, second = {0};
    json_auto_t *a = NULL;
    json_auto_t *b = NULL;
    int rc = expr_eval(e, scope, &a, &first);
    require(expr_eval(e, scope, &b, &second) == rc);
    require(strcmp(first.text, second.text) == 0);
    require((rc == 0) == (a != NULL));
    if (rc == 0)
        require(json_equal(a, b) && expr_truthy(a) == expr_truthy(b));
    else
        require(strncmp(first.text, "column ", 7) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(free_str) char *text = mem_zero(size + 1, 1);
    if (size)
        memcpy(text, data, size);
    struct err err = {0};
    AUTO(expr_release) struct expr *e = expr_compile(text, &err);
    if (!e) {
        require(err.kind == ERR_USAGE && strncmp(err.text, "column ", 7) == 0);
        return 0;
    }
    json_auto_t *scope = json_loads(scope_text, 0, NULL);
    json_auto_t *empty = json_object();
    check(e, scope);
    check(e, empty);
    return 0;
}
