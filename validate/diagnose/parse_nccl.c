/* NCCL's own lines where more than one must be weighed: versions per host, transports per channel,
 * completions with their status, queue pairs that do not connect. */
#include "validate/diagnose/diag.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { RAILS_MAX = 16, VERSIONS_MAX = 16, VERSION_BYTES = 24 };

struct version {
    char text[VERSION_BYTES], host[LINES_HOST_BYTES];
    struct diag_where at;
};

struct nccl {
    struct version versions[VERSIONS_MAX];
    size_t version_count;
    struct diag_where gdr_at, plain_at, socket_at, p2p_at, shm_at, libfabric_at;
    size_t gdr, plain, socket, p2p, shm, libfabric;
    char last_host[LINES_HOST_BYTES];
    char mtu[8];
};

static void *create(void)
{
    return mem_zero(1, sizeof(struct nccl));
}

static void release(void *state)
{
    struct nccl *s = state;
    for (size_t i = 0; i < s->version_count; i++)
        diag_where_release(&s->versions[i].at);
    struct diag_where *all[] = {&s->gdr_at, &s->plain_at, &s->socket_at,
                                &s->p2p_at, &s->shm_at,   &s->libfabric_at};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        diag_where_release(all[i]);
    free(s);
}

static void take_version(struct nccl *s, const struct diag_line *line, const char *at)
{
    const char *p = at + strlen("NCCL version ");
    size_t len = strspn(p, "0123456789.");
    while (len > 0 && p[len - 1] == '.')
        len--;
    if (len < 3 || len >= VERSION_BYTES)
        return;
    const char *host = line->host[0] ? line->host : s->last_host;
    for (size_t i = 0; i < s->version_count; i++)
        if (strlen(s->versions[i].text) == len && strncmp(s->versions[i].text, p, len) == 0)
            return;
    if (s->version_count == VERSIONS_MAX)
        return;
    struct version *v = &s->versions[s->version_count++];
    *v = (struct version){.at = diag_where_copy(line)};
    snprintf(v->text, sizeof v->text, "%.*s", (int)len, p);
    snprintf(v->host, sizeof v->host, "%s", host);
    snprintf(v->at.host, sizeof v->at.host, "%s", host);
}

static void count(struct diag_where *at, size_t *n, const struct diag_line *line)
{
    if (!at->file)
        *at = diag_where_copy(line);
    (*n)++;
}

static void take_transport(struct nccl *s, const struct diag_line *line, const char *via)
{
    if (strncmp(via, "NET/Socket", 10) == 0)
        count(&s->socket_at, &s->socket, line);
    else if (strncmp(via, "NET/", 4) == 0 && strstr(via, "GDRDMA"))
        count(&s->gdr_at, &s->gdr, line);
    else if (strncmp(via, "NET/IB", 6) == 0)
        count(&s->plain_at, &s->plain, line);
    else if (strncmp(via, "NET/", 4) == 0)
        count(&s->libfabric_at, &s->libfabric, line);
    else if (strncmp(via, "P2P", 3) == 0)
        count(&s->p2p_at, &s->p2p, line);
    else if (strncmp(via, "SHM", 3) == 0 || strncmp(via, "direct shared memory", 20) == 0)
        count(&s->shm_at, &s->shm, line);
}

/* Value behind "key" up to a blank or comma; "" when the key is missing. */
static void field(const char *text, const char *key, char *out, size_t size)
{
    const char *p = strcasestr(text, key);
    out[0] = '\0';
    if (!p)
        return;
    p += strlen(key);
    p += strspn(p, " =");
    snprintf(out, size, "%.*s", (int)strcspn(p, " ,\t<"), p);
}

/* IPv4 in a GID ("::ffff:172.16.5.3"); false for another form. */
static bool ipv4_of(const char *gid, unsigned out[4])
{
    const char *p = strrchr(gid, ':');
    p = p ? p + 1 : gid;
    return sscanf(p, "%3u.%3u.%3u.%3u", &out[0], &out[1], &out[2], &out[3]) == 4;
}

/* Rails are numbered subnets side by side (172.16.5.x, 172.16.6.x); in a routed fabric any two
 * nodes may have different ones, and far ones say nothing about rails. */
static enum diag_id relation(const unsigned a[4], const unsigned b[4])
{
    unsigned apart = a[2] > b[2] ? a[2] - b[2] : b[2] - a[2];
    if (a[0] != b[0] || a[1] != b[1] || apart > RAILS_MAX)
        return DIAG_ends_routed;
    return apart == 0 ? DIAG_ends_same_subnet : DIAG_ends_other_subnet;
}

/* Both ends of a connection that fails: on one subnet, on two, or not known. */
static void judge_ends(struct diag *d, const struct diag_line *line, const char *local,
                       const char *remote)
{
    unsigned a[4], b[4];
    char dev[48], index[16];
    field(line->text, "on dev ", dev, sizeof dev);
    if (!dev[0])
        field(line->text, "hca ", dev, sizeof dev);
    field(line->text, "GID index ", index, sizeof index);
    if (strncmp(local, "fe80", 4) == 0)
        diag_find(d, DIAG_gid_link_local, line, "gid", local, "dev", dev, "index", index, NULL);
    if (ipv4_of(local, a) && ipv4_of(remote, b))
        diag_find(d, relation(a, b), line, "local", local, "remote", remote, "dev", dev, NULL);
}

static void take_modify_qp(struct diag *d, const struct diag_line *line, const char *at)
{
    char local[64], remote[64], dev[48];
    local[0] = '\0';
    /* "local GID index 3, local GID ADDRESS": the second is the address. */
    const char *p = strstr(at, "local GID index");
    p = p ? strstr(p + 10, "local GID ") : strstr(at, "local GID ");
    if (p)
        field(p, "local GID ", local, sizeof local);
    field(at, "remote GID ", remote, sizeof remote);
    field(at, "on dev ", dev, sizeof dev);
    bool late = strstr(at, "timed out") || strstr(at, " 110");
    bool invalid = strstr(at, "Invalid argument") || strstr(at, "failed with 22");
    bool no_route = strstr(at, "unreachable") || strstr(at, "No route");
    diag_find(d,
              late       ? DIAG_modify_qp_timeout
              : invalid  ? DIAG_modify_qp_invalid
              : no_route ? DIAG_modify_qp_no_route
                         : DIAG_modify_qp_other,
              line, "dev", dev, "local", local, "remote", remote, NULL);
    judge_ends(d, line, local, remote);
}

static const struct {
    int status;
    enum diag_id id;
    const char *name;
} statuses[] = {
    {4, DIAG_wc_local_protection, "local protection error"},
    {5, DIAG_wc_flush, "flushed"},
    {9, DIAG_wc_remote_invalid, "remote invalid request"},
    {10, DIAG_wc_remote_access, "remote access error"},
    {12, DIAG_wc_retry, "transport retry counter exceeded"},
    {13, DIAG_wc_rnr, "receiver not ready, retries exceeded"},
};

static void take_completion(struct diag *d, const struct diag_line *line, const char *at)
{
    struct match_result r;
    char number[16] = "", vendor[16], peer[64], local[64], remote[64], dev[48];
    if (match_text("(error |status=){n#}", at, &r) || match_text("status={name}\\({n#}\\)", at, &r))
        match_get(&r, "n", number, sizeof number);
    field(at, strstr(at, "vendor_err") ? "vendor_err" : "vendor err", vendor, sizeof vendor);
    field(at, "from peer ", peer, sizeof peer);
    field(at, "localGid ", local, sizeof local);
    field(at, "remoteGids", remote, sizeof remote);
    field(at, "hca ", dev, sizeof dev);
    int status = (int)diag_number(number, -1);
    enum diag_id id = DIAG_wc_other;
    const char *name = NULL;
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (statuses[i].status == status) {
            id = statuses[i].id;
            name = statuses[i].name;
        }
    diag_find(d, id, line, "status", number, "name", name, "vendor", vendor, "peer", peer, "dev",
              dev, NULL);
    if (local[0] && remote[0])
        judge_ends(d, line, local, remote[0] == ':' && remote[1] != ':' ? remote + 1 : remote);
}

static void take_queue_pair(struct nccl *s, struct diag *d, const struct diag_line *line,
                            const char *at)
{
    struct match_result r;
    char index[8] = "", gid[48] = "", mtu[8] = "";
    if (!match_text("qpn {q#} mtu {mtu#} *GID {index#} \\({gid*}\\)", at, &r))
        return;
    match_get(&r, "index", index, sizeof index);
    match_get(&r, "gid", gid, sizeof gid);
    match_get(&r, "mtu", mtu, sizeof mtu);
    if (strncmp(gid, "80FE", 4) == 0 || strncmp(gid, "80fe", 4) == 0)
        diag_find(d, DIAG_gid_link_local, line, "index", index, "gid", "fe80::", NULL);
    if (s->mtu[0] && strcmp(s->mtu, mtu) != 0)
        diag_find(d, DIAG_qp_mtus_differ, line, "a", s->mtu, "b", mtu, NULL);
    snprintf(s->mtu, sizeof s->mtu, "%s", mtu);
}

static void feed(void *state, struct diag *d, const struct diag_line *line)
{
    struct nccl *s = state;
    const char *nccl = strstr(line->text, "NCCL "), *at;
    if (!nccl)
        return;
    if (line->host[0])
        snprintf(s->last_host, sizeof s->last_host, "%s", line->host);
    if ((at = strstr(line->text, "NCCL version ")) != NULL)
        take_version(s, line, at);
    if ((at = strstr(line->text, " via ")) != NULL && strstr(line->text, "Channel "))
        take_transport(s, line, at + 5);
    if ((at = strstr(line->text, "ibv_modify_qp failed")) != NULL)
        take_modify_qp(d, line, at);
    if ((at = strstr(line->text, "Got completion")) != NULL)
        take_completion(d, line, at);
    if ((at = strstr(line->text, " qpn ")) != NULL)
        take_queue_pair(s, d, line, at + 1);
}

static void tell(struct diag *d, enum diag_id id, const struct diag_where *at, size_t n)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", n);
    if (n > 0)
        diag_find_where(d, id, at, "count", number, NULL);
}

static void finish(void *state, struct diag *d)
{
    struct nccl *s = state;
    for (size_t i = 0; i < s->version_count; i++)
        diag_find_where(d, s->version_count > 1 ? DIAG_versions_differ : DIAG_nccl_version,
                        &s->versions[i].at, "version", s->versions[i].text, "host",
                        s->versions[i].host, NULL);
    tell(d, DIAG_via_gdr, &s->gdr_at, s->gdr);
    tell(d, DIAG_via_ib_plain, &s->plain_at, s->plain);
    tell(d, DIAG_via_socket, &s->socket_at, s->socket);
    tell(d, DIAG_via_p2p, &s->p2p_at, s->p2p);
    tell(d, DIAG_via_shm, &s->shm_at, s->shm);
    tell(d, DIAG_via_libfabric, &s->libfabric_at, s->libfabric);
}

const struct diag_parser diag_nccl_parser = {create, feed, finish, release};
