/* sample-report DIR NODE...: a signed sample report of a healthy cluster of these nodes (two or
 * more).
 *
 * DIR gets signing.pub, report.dsse.json, slices/NODE.json, evidence/NODE.jsonl.  The first node
 * has the identity of this machine, so that muster-gate can be tried and timed here.  The figures
 * are made up: the key is thrown away at the end, and nothing that matters trusts it. */
#include <stdio.h>
#include <unistd.h>

#include "agents/facts/identity.h"
#include "cluster.h"

#include "common/fs.h"

static int save(const struct cluster *c, const char *dir, struct sign_key *key, struct err *err)
{
    json_auto_t *envelope = NULL, *slices = NULL;
    struct sign_public public;
    sign_public_raw(key, &public);
    cluster_report(c, key, 1, false, &envelope, &slices);
    AUTO(free_str) char *report = str_printf("%s/report.dsse.json", dir);
    AUTO(free_str) char *pub = str_printf("%s/signing.pub", dir);
    AUTO(free_str) char *slice_dir = str_printf("%s/slices", dir);
    AUTO(free_str) char *evidence_dir = str_printf("%s/evidence", dir);
    if (fs_mkdirs(slice_dir, 0755, err) != 0 || fs_mkdirs(evidence_dir, 0755, err) != 0 ||
        report_save(report, envelope, err) != 0 || sign_public_save(&public, pub, err) != 0)
        return -1;
    for (size_t i = 0; i < c->count; i++) {
        AUTO(free_str) char *slice = str_printf("%s/%s.json", slice_dir, c->names[i]);
        AUTO(free_str) char *lines = str_printf("%s/%s.jsonl", evidence_dir, c->names[i]);
        if (report_save(slice, json_object_get(slices, c->names[i]), err) != 0 ||
            fs_write_atomic(lines, c->lines[i].data, c->lines[i].len, 0644, err) != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 2 > CLUSTER_MAX) {
        fprintf(stderr, "usage: sample-report DIR NODE NODE...  (2 to %d nodes)\n", CLUSTER_MAX);
        return 2;
    }
    struct cluster *c = mem_zero(1, sizeof *c);
    struct err err = {0};
    struct fs_root root = {""};
    json_t *identity = NULL;
    if (identity_read(&root, &identity, &err) != 0) {
        fprintf(stderr, "sample-report: %s\n", err.text);
        return 3;
    }
    cluster_open_named(c, (size_t)argc - 2, 1e10, (const char *const *)argv + 2);
    c->now_ms = wall_ms();
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    json_t *own = json_object_get(c->facts, host);
    if (own)
        jsonx_set(own, "identity", json_incref(identity));
    json_decref(identity);
    cluster_measure(c);
    struct sign_key *key = sign_key_generate(&err);
    int result = key ? save(c, argv[1], key, &err) : -1;
    if (result != 0)
        fprintf(stderr, "sample-report: %s\n", err.text);
    sign_key_destroy(key);
    cluster_close(c);
    free(c);
    return result == 0 ? 0 : err_exit_status(err.kind);
}
