/* muster-gate: is this node ready, by the newest signed report and by what it is now?
 *
 * For a job prolog: it starts no process, opens no socket, and reads only the slice, the key and
 * what /proc, /sys and /etc say of this machine.  Exit 0 ready, 1 not ready, 2 cannot tell. */
#include "agents/gate/gate_main.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agents/facts/identity.h"
#include "agents/resources/resources.h"
#include "common/fs.h"
#include "common/jsonx.h"
#include "common/opt.h"
#include "common/util.h"
#include "validate/gate.h"
#include "validate/slice.h"

#define STATE_DIR "/var/lib/muster"

struct settings {
    const char *node, *dir, *slice, *key, *root;
    bool why, quiet, json, version;
};

static const struct opt_row rows[] = {
    {OPT_STRING, "node", 'n', "NAME",
     "name of this node in the site file; default: as the last report that was published here "
     "calls it, "
     "else the host name",
     offsetof(struct settings, node), 0, 0},
    {OPT_STRING, "dir", 'd', "DIR", "directory of slice, key and serial; default " STATE_DIR,
     offsetof(struct settings, dir), 0, 0},
    {OPT_STRING, "slice", 's', "FILE", "slice of the report; default DIR/slice.json",
     offsetof(struct settings, slice), 0, 0},
    {OPT_STRING, "key", 'k', "FILE",
     "public key that reports are signed with; default DIR/report.pub",
     offsetof(struct settings, key), 0, 0},
    {OPT_STRING, "root", 0, "DIR", "directory that stands for / when this machine is read",
     offsetof(struct settings, root), 0, 0},
    {OPT_FLAG, "why", 'w', NULL, "print the reason for a ready node too",
     offsetof(struct settings, why), 0, 0},
    {OPT_FLAG, "quiet", 'q', NULL, "print nothing, only exit", offsetof(struct settings, quiet), 0,
     0},
    {OPT_FLAG, "json", 'j', NULL, "print the decision as one JSON object",
     offsetof(struct settings, json), 0, 0},
    {OPT_FLAG, "version", 0, NULL, "print the version and exit", offsetof(struct settings, version),
     0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static const struct opt_example examples[] = {
    {"muster-gate", "exit 0 when this node may take jobs"},
    {"muster-gate --why || scontrol update nodename=$(hostname -s) state=drain reason=muster",
     "in a Slurm prolog"},
    {NULL, NULL},
};

static const char *const about[] = {
    "Verifies this node's part of the newest signed report, and that hardware and configuration "
    "are "
    "still those that were measured.",
    "Exit status: 0 ready, 1 not ready (state, hardware or configuration), 2 cannot tell (missing, "
    "expired or unverifiable report, or wrong use).",
    NULL,
};

static const struct opt_command command = {.name = "",
                                           .summary = "is this node ready for jobs?",
                                           .operands = "",
                                           .about = about,
                                           .rows = rows,
                                           .examples = examples,
                                           .settings_bytes = sizeof(struct settings)};

static char *default_path(const char *given, const char *dir, const char *name)
{
    return given ? str_dup(given) : str_printf("%s/%s", dir, name);
}

static int cannot_tell(struct gate_result *r, const struct err *err)
{
    *r = (struct gate_result){.status = GATE_CANNOT_TELL};
    snprintf(r->why, sizeof r->why, "%.500s", err->text);
    return -1;
}

static int read_slice(const char *path, char **text, size_t *len, struct err *err)
{
    if (fs_read(path, SLICE_MAX_BYTES, text, len, err) == 0)
        return 0;
    if (err->native != ENOENT)
        return -1;
    err_clear(err);
    return err_set(err, ERR_ENV,
                   "no report has come to this node (%s is missing); run muster validate", path);
}

/* DIR/serial; a node that never accepted a report has none. */
static int read_serial(const char *dir, int64_t *serial, struct err *err)
{
    AUTO(free_str) char *path = str_printf("%s/serial", dir);
    AUTO(free_str) char *text = NULL;
    struct err read_err = {0};
    *serial = 0;
    if (fs_read(path, 64, &text, NULL, &read_err) != 0) {
        if (read_err.native == ENOENT)
            return 0;
        return err_set(err, read_err.kind, "%s", read_err.text);
    }
    char *end = NULL;
    errno = 0;
    *serial = strtoll(text, &end, 10);
    if (errno != 0 || end == text || (*end != '\0' && strcmp(end, "\n") != 0) || *serial < 0)
        return err_set(err, ERR_DATA, "%s: not a serial number", path);
    return 0;
}

/* The record of managed settings and their digests now; both NULL where nothing is managed. */
static int read_config(const struct fs_root *root, json_t **manifest, json_t **now, struct err *err)
{
    struct resources_env env = {.root = root, .state_dir = STATE_DIR};
    if (resources_manifest(&env, manifest, err) != 0)
        return -1;
    return resources_manifest_now(&env, *manifest, now, err);
}

/* With --root, the state directory is below it too unless --dir says otherwise. */
static int check(const struct settings *s, const char *node, struct gate_result *result)
{
    struct err err = {0};
    struct fs_root root;
    struct sign_public key;
    struct gate_input in = {.trusted = &key, .trusted_count = 1, .node = node, .now_ms = wall_ms()};
    if (fs_root_open(&root, s->root, &err) != 0)
        return cannot_tell(result, &err);
    AUTO(free_str) char *dir = s->dir ? str_dup(s->dir) : str_printf("%s" STATE_DIR, root.path);
    AUTO(free_str) char *slice_path = default_path(s->slice, dir, "slice.json");
    AUTO(free_str) char *key_path = default_path(s->key, dir, "report.pub");
    AUTO(free_str) char *slice = NULL;
    json_auto_t *identity = NULL, *manifest = NULL, *manifest_now = NULL;
    if (read_slice(slice_path, &slice, &in.slice_len, &err) != 0 ||
        sign_public_load(key_path, &key, &err) != 0 ||
        read_serial(dir, &in.serial_accepted, &err) != 0 ||
        identity_read(&root, &identity, &err) != 0 ||
        read_config(&root, &manifest, &manifest_now, &err) != 0)
        return cannot_tell(result, &err);
    in.slice = slice;
    in.identity = identity;
    in.manifest = manifest;
    in.manifest_now = manifest_now;
    gate_check(&in, result);
    return 0;
}

static void print(const struct settings *s, const char *node, const struct gate_result *r)
{
    static const char *const words[] = {"ready", "not ready", "cannot tell"};
    if (s->json) {
        json_auto_t *out = json_object();
        jsonx_set_int(out, "v", 1);
        jsonx_set_str(out, "node", node);
        jsonx_set_int(out, "status", r->status);
        jsonx_set_str(out, "decision", words[r->status]);
        jsonx_set_str(out, "why", r->why);
        jsonx_set_str(out, "state", r->state[0] ? r->state : NULL);
        jsonx_set_int(out, "serial", r->serial);
        jsonx_set_str(out, "run", r->run[0] ? r->run : NULL);
        AUTO(free_str) char *text = jsonx_canonical(out);
        puts(text);
    } else if (!s->quiet && (r->status != GATE_READY || s->why)) {
        printf("%s: %s\n", node, r->why);
    }
}

/* The name that the controller gave this machine, else its host name; NULL when there is neither.
 */
static char *own_name(const struct settings *s)
{
    struct fs_root real = {""};
    AUTO(free_str) char *path = str_printf("%s/node", s->dir ? s->dir : STATE_DIR);
    char *name = path[0] == '/' ? fs_read_line_at(&real, path) : NULL;
    if (name && name[0])
        return name;
    free(name);
    char host[256] = "";
    return gethostname(host, sizeof host - 1) == 0 ? str_dup(host) : NULL;
}

int gate_main(int argc, char **argv)
{
    /* Neither the configuration file nor the error strings of libcrypto are needed; both cost time.
     */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS, NULL);
    struct settings s = {0};
    struct err err = {0};
    bool help = false;
    int first = 0;
    if (opt_parse(&command, argc, argv, &s, &first, &help, &err) == 0 && !help && first < argc)
        err_set(&err, ERR_USAGE, "unexpected argument '%.80s'", argv[first]);
    if (err.kind != ERR_NONE) {
        /* The parser's prefix is the subcommand's name, and this program has none. */
        fprintf(stderr, "muster-gate: %s\n", err.text + (strncmp(err.text, ": ", 2) == 0 ? 2 : 0));
        return GATE_CANNOT_TELL;
    }
    if (help) {
        opt_print_help(&command, "muster-gate", stdout);
        return 0;
    }
    if (s.version) {
        puts("muster-gate " MUSTER_VERSION);
        return 0;
    }
    AUTO(free_str) char *node = s.node ? str_dup(s.node) : own_name(&s);
    if (!node) {
        fprintf(stderr, "muster-gate: the host name cannot be read; use --node\n");
        return GATE_CANNOT_TELL;
    }
    struct gate_result result;
    check(&s, node, &result);
    print(&s, node, &result);
    return fflush(stdout) == 0 ? (int)result.status : GATE_CANNOT_TELL;
}
