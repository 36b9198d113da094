/* A verified report in other forms.  Each takes the report's statement (report_verify) and returns
 * text that the caller frees; NULL and err (ERR_DATA) when the statement lacks what is needed. */
#ifndef MUSTER_VALIDATE_EXPORT_H
#define MUSTER_VALIDATE_EXPORT_H

#include <jansson.h>

#include "common/err.h"

char *export_test_result(const json_t *statement,
                         struct err *err);                    /* in-toto test-result/v0.1, JSON */
char *export_junit(const json_t *statement, struct err *err); /* one suite per node */
char *export_csv(const json_t *statement, struct err *err);   /* RFC 4180, one row per element */
char *export_prometheus(const json_t *statement, struct err *err); /* text exposition format */

#endif
