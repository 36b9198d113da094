/* What a node says while a stage runs.  It is taken only as far as it cannot harm others. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/util.h"
#include "provision/steps.h"

enum { EVIDENCE_MAX_BYTES = 64 * 1024 * 1024 }; /* of one node in one run */

/* A line is stored whole or not at all: half a line would spoil the next one too. */
static int append_line(int fd, const char *line, size_t len, off_t size)
{
    ssize_t written = write(fd, line, len);
    if (written == (ssize_t)len)
        return 0;
    int reason = written < 0 ? errno : ENOSPC;
    if (written > 0 && ftruncate(fd, size) != 0)
        reason = errno;
    errno = reason;
    return -1;
}

static void store(struct ctl *c, size_t node, const char *text)
{
    AUTO(free_str) char *path = run_node_path(&c->run, "evidence", c->names[node], ".jsonl");
    AUTO(free_str) char *line = str_printf("%s\n", text);
    AUTO(close_fd) int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    struct stat st = {0};
    if (fd < 0 || fstat(fd, &st) != 0 || append_line(fd, line, strlen(line), st.st_size) != 0)
        log_error("%s: %s; this record is lost and its stage will not count", path,
                  strerror(errno));
    else if (st.st_size > EVIDENCE_MAX_BYTES)
        fleet_drop(c->fleet, node, ERR_DATA, "protocol",
                   "the agent sent more than 64 MiB of records in one run");
}

void step_take_evidence(struct ctl *c, size_t node, const json_t *event)
{
    if (strcmp(jsonx_str_or(event, "event", ""), "evidence") != 0)
        return;
    const char *text = jsonx_str_or(event, "line", NULL);
    if (text && !strchr(text, '\n'))
        store(c, node, text); /* else not evidence: the seal's count shows that one is missing */
}

static int check_endpoint(const json_t *endpoint, struct err *err)
{
    static const char *const keys[] = {"address", "port", "interface", NULL};
    const char *address = NULL, *interface = NULL;
    int64_t port = 0;
    struct in6_addr any;
    if (!json_is_object(endpoint))
        return err_set(err, ERR_DATA, "endpoint: must be an object");
    if (jsonx_only_keys(endpoint, "endpoint", keys, err) != 0 ||
        jsonx_get_str(endpoint, "endpoint", "address", &address, err) != 0 ||
        jsonx_opt_str(endpoint, "endpoint", "interface", &interface, err) != 0 ||
        jsonx_get_int(endpoint, "endpoint", "port", &port, err) != 0)
        return -1;
    if (port < 1 || port > 65535)
        return err_set(err, ERR_DATA, "endpoint: port %lld is not in 1..65535", (long long)port);
    if (inet_pton(AF_INET, address, &any) != 1 && inet_pton(AF_INET6, address, &any) != 1)
        return err_set(err, ERR_DATA, "endpoint: '%.64s' is no numeric address", address);
    return 0;
}

void step_take_endpoint(struct ctl *c, size_t node, const json_t *event, json_t **endpoint)
{
    if (strcmp(jsonx_str_or(event, "event", ""), "endpoint") != 0)
        return;
    json_t *said = json_object_get(event, "endpoint");
    struct err err = {0};
    if (check_endpoint(said, &err) != 0) {
        fleet_drop(c->fleet, node, ERR_DATA, "protocol", err.text);
        return;
    }
    json_decref(*endpoint);
    *endpoint = json_incref(said);
}

void step_cancel(struct ctl *c, size_t node)
{
    json_auto_t *request = json_object();
    jsonx_set_str(request, "op", "cancel");
    jsonx_set_int(request, "stage_id", fleet_request_id(c->fleet, node));
    fleet_send(c->fleet, node, request);
}
