/* The transaction, ended at every point at which it may end. */
#include "resources_scratch.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "agents/resources/journal.h"

/* One of each kind that works below a scratch root. */
static const char resources_text[] =
    "[{'kind':'file','id':'/etc/changed.conf','params':{'content':'new\\n','mode':'0640'}},"
    "{'kind':'file','id':'/etc/a/b/made.conf','params':{'content':'made\\n'}},"
    "{'kind':'file','id':'/etc/gone.conf','params':{'state':'absent'}},"
    "{'kind':'modprobe_options','id':'nvidia-peermem','params':{'options':{'peerdirect_support':0}}"
    "},"
    "{'kind':'module','id':'ib_umad','params':{}},"
    "{'kind':'sysctl','id':'net.core.rmem_max','params':{'value':1234567}},"
    "{'kind':'limits','id':'*','params':{'memlock':'unlimited','nofile':65536}},"
    "{'kind':'env_file','id':'/etc/"
    "nccl.conf','params':{'format':'nccl','set':{'NCCL_IB_HCA':'mlx5'}}},"
    "{'kind':'env_file','id':'/etc/nccl.conf','params':{'format':'nccl','set':{'NCCL_IB_TC':106}}},"
    "{'kind':'file','id':'/etc/same.conf','params':{'content':'same\\n'}}]";

static void fill(struct scratch *s)
{
    scratch_open(s);
    scratch_modprobe(s);
    scratch_put(s, "/etc/changed.conf", "old\n", 0600);
    scratch_put(s, "/etc/gone.conf", "to go\n", 0644);
    scratch_put(s, "/etc/same.conf", "same\n", 0644);
    scratch_put(s, "/etc/nccl.conf", "# ours\nNCCL_DEBUG=WARN\nNCCL_IB_HCA=old\n", 0644);
    scratch_put(s, "/proc/sys/net/core/rmem_max", "212992", 0644);
    scratch_put(s, "/proc/sys/fs/nr_open", "1048576\n", 0644);
}

/* --- children that die ---------------------------------------------------------------------- */

struct killer {
    int left;         /* points to live through; 0: never dies */
    const char *from; /* count only from this point on; NULL: from the start */
    bool counting;
};

static void on_step(void *ctx, const char *point)
{
    struct killer *k = ctx;
    if (k->from && !k->counting && strcmp(point, k->from) == 0)
        k->counting = true;
    if ((k->counting || !k->from) && k->left > 0 && --k->left == 0)
        kill(getpid(), SIGKILL);
}

enum action { APPLY, APPLY_STOPPED, RECOVER, ROLLBACK };

/* The channel closes before the last step, so that what was applied is undone in this process. */
static int stop_late(void *ctx, size_t index, size_t count, const char *text)
{
    return index == count;
}

static int act(const struct scratch *s, enum action action, const char *txn, struct killer *killer)
{
    struct resources_env env = s->env;
    env.step = killer ? on_step : NULL;
    env.step_ctx = killer;
    env.progress = action == APPLY_STOPPED ? stop_late : NULL;
    json_t *resources = scratch_json(resources_text), *data = NULL;
    struct err err = {0};
    int rc;
    if (action == RECOVER)
        rc = resources_recover(&env, &data, &err);
    else if (action == ROLLBACK)
        rc = resources_rollback(&env, NULL, false, &data, &err);
    else
        rc = resources_apply(&env, txn, resources, &data, &err);
    json_decref(resources);
    json_decref(data);
    return rc;
}

/* True while the child was killed; false once it lived through all points (and succeeded). */
static bool dies(const struct scratch *s, enum action action, const char *txn, int at,
                 const char *from)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct killer killer = {at, from, false};
        _exit(act(s, action, txn, &killer) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* --- what must hold ------------------------------------------------------------------------- */

static char *planned_snapshot(void)
{
    struct scratch s;
    fill(&s);
    assert_int_equal(act(&s, APPLY, "reference", NULL), 0);
    char *snapshot = scratch_snapshot(&s);
    scratch_close(&s);
    return snapshot;
}

/* Snapshots of two scratch roots differ in the path that modprobe's stand-in holds. */
static void assert_same_tree(const char *got, const char *want)
{
    const char *a = strstr(got, "modprobe ["), *b = strstr(want, "modprobe [");
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a - got, b - want);
    assert_memory_equal(got, want, (size_t)(a - got));
    assert_string_equal(strchr(a, ']') ? strstr(a, "\n]") : "", strstr(b, "\n]"));
}

/* Every file is whole: as before or as planned.  (Lines of a snapshot are one file each.) */
static void assert_no_mixture(const struct scratch *s, const char *before, const char *planned)
{
    static const char *const files[] = {"/etc/changed.conf",
                                        "/etc/gone.conf",
                                        "/etc/same.conf",
                                        "/etc/a/b/made.conf",
                                        "/etc/modprobe.d/muster-nvidia-peermem.conf",
                                        "/proc/sys/net/core/rmem_max",
                                        "/etc/security/limits.d/90-muster-all.conf"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        AUTO(free_str) char *text = scratch_get(s, files[i]);
        AUTO(free_str) char *line = str_printf("%s [%s]\n", files[i], text);
        AUTO(free_str) char *head = str_printf(" %s [", files[i]);
        bool absent = strcmp(text, "(none)") == 0;
        bool as_before = absent ? !strstr(before, head) : strstr(before, line) != NULL;
        bool as_planned = absent ? !strstr(planned, head) : strstr(planned, line) != NULL;
        if (!as_before && !as_planned)
            fail_msg("%s is neither as before nor as planned: '%s'", files[i], text);
    }
}

static size_t manifest_count(const struct scratch *s)
{
    json_t *manifest = NULL;
    struct err err = {0};
    assert_ok(resources_manifest(&s->env, &manifest, &err), err);
    size_t n = json_array_size(json_object_get(manifest, "items"));
    json_decref(manifest);
    return n;
}

static void assert_nothing_open(const struct scratch *s)
{
    char **names = NULL;
    size_t count = 0;
    struct err err = {0};
    assert_ok(fs_list_at(&s->root, "/var/lib/muster", &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "config.json") != 0 && strcmp(names[i], "lock") != 0 &&
            strcmp(names[i], "txn") != 0)
            fail_msg("left in the state directory: %s", names[i]);
    }
    fs_list_free(names, count);
    json_t *recovery = NULL;
    assert_ok(resources_recover(&s->env, &recovery, &err), err);
    assert_null(recovery);
}

static void assert_tree(const struct scratch *s, const char *want)
{
    AUTO(free_str) char *now = scratch_snapshot(s);
    assert_same_tree(now, want);
}

/* Recover in this process; the action is returned ("" when there was nothing to do). */
static char *recover(const struct scratch *s)
{
    json_t *recovery = NULL;
    struct err err = {0};
    assert_ok(resources_recover(&s->env, &recovery, &err), err);
    char *action = str_dup(jsonx_str_or(recovery, "action", ""));
    if (recovery)
        assert_true(strstr(jsonx_str_or(recovery, "text", ""), jsonx_str_or(recovery, "txn", "?")));
    json_decref(recovery);
    return action;
}

/* --- tests ---------------------------------------------------------------------------------- */

static void test_apply_twice(void **state)
{
    struct scratch s;
    fill(&s);
    json_t *resources = scratch_json(resources_text), *data = NULL;
    struct err err = {0};
    static const char *const outcomes[] = {"changed", "changed", "changed", "changed", "changed",
                                           "changed", "changed", "changed", "changed", "same"};
    assert_ok(resources_apply(&s.env, "t1", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "committed");
    for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
        assert_string_equal(
            jsonx_str_or(json_array_get(json_object_get(data, "items"), i), "outcome", ""),
            outcomes[i]);
    json_decref(data);
    AUTO(free_str) char *nccl = scratch_get(&s, "/etc/nccl.conf");
    assert_string_equal(nccl, "# ours\nNCCL_DEBUG=WARN\nNCCL_IB_HCA=mlx5\nNCCL_IB_TC=106\n");
    AUTO(free_str) char *limits = scratch_get(&s, "/etc/security/limits.d/90-muster-all.conf");
    assert_non_null(strstr(limits, "\n* hard nofile 65536\n"));
    assert_non_null(strstr(limits, "\nroot soft memlock unlimited\n"));
    assert_int_equal(manifest_count(&s), 9); /* the two parts of nccl.conf are one */

    assert_ok(resources_apply(&s.env, "t2", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "nothing");
    json_decref(data);
    assert_false(journal_exists(&s.env, "t2"));
    assert_true(journal_exists(&s.env, "t1"));
    /* A run that was broken off asks again: fine while nothing is to change, else a new name. */
    assert_ok(resources_apply(&s.env, "t1", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "nothing");
    json_decref(data);
    scratch_put(&s, "/etc/nccl.conf", "# ours\n", 0644);
    assert_int_equal(resources_apply(&s.env, "t1", resources, &data, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "transaction t1 has been applied here before");
    json_decref(resources);
    assert_nothing_open(&s);
    scratch_close(&s);
}

static void test_killed_while_applying(void **state)
{
    AUTO(free_str) char *planned = planned_snapshot();
    int undone = 0, finished = 0, k = 1;
    for (;; k++) {
        struct scratch s;
        fill(&s);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        bool killed = dies(&s, APPLY, "t", k, NULL);
        assert_no_mixture(&s, before, planned);
        AUTO(free_str) char *link = scratch_path(&s, "/var/lib/muster/txn/open");
        struct stat st;
        bool open = lstat(link, &st) == 0;
        AUTO(free_str) char *action = recover(&s);
        assert_int_equal(open, action[0] != '\0');
        bool committed = !killed || strcmp(action, "finished") == 0 || manifest_count(&s) == 9;
        undone += strcmp(action, "undone") == 0;
        finished += strcmp(action, "finished") == 0;
        assert_tree(&s, committed ? planned : before);
        assert_int_equal(manifest_count(&s), committed ? 9 : 0);
        assert_nothing_open(&s);
        assert_int_equal(act(&s, APPLY, "again", NULL), 0);
        assert_tree(&s, planned);
        scratch_close(&s);
        if (!killed)
            break;
    }
    /* Both ways out were met, and the points are as many as eight changes make. */
    assert_true(undone > 50);
    assert_true(finished >= 3);
    assert_true(k > 80);
}

static void test_killed_while_undoing(void **state)
{
    int k = 1, undone = 0;
    for (;; k++) {
        struct scratch s;
        fill(&s);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        bool killed = dies(&s, APPLY_STOPPED, "t", k, "journal.undo");
        AUTO(free_str) char *action = recover(&s);
        undone += strcmp(action, "undone") == 0;
        assert_tree(&s, before);
        assert_int_equal(manifest_count(&s), 0);
        assert_nothing_open(&s);
        scratch_close(&s);
        if (!killed)
            break;
    }
    assert_true(undone > 30);
}

/* The recovery itself is killed at each point, after the transaction was killed at its fullest. */
static void test_killed_while_recovering(void **state)
{
    int k = 1, undone = 0;
    for (;; k++) {
        struct scratch s;
        fill(&s);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        assert_true(dies(&s, APPLY, "t", 1, "journal.commit"));
        bool killed = dies(&s, RECOVER, NULL, k, NULL);
        AUTO(free_str) char *action = recover(&s);
        undone += strcmp(action, "undone") == 0;
        assert_tree(&s, before);
        assert_nothing_open(&s);
        scratch_close(&s);
        if (!killed)
            break;
    }
    assert_true(undone > 30);
}

static void test_killed_while_rolling_back(void **state)
{
    AUTO(free_str) char *planned = planned_snapshot();
    int k = 1, undone = 0, untouched = 0;
    for (;; k++) {
        struct scratch s;
        fill(&s);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        assert_int_equal(act(&s, APPLY, "t", NULL), 0);
        bool killed = dies(&s, ROLLBACK, NULL, k, NULL);
        AUTO(free_str) char *action = recover(&s);
        undone += strcmp(action, "undone") == 0;
        /* Without an open transaction either nothing has happened yet, or everything. */
        if (killed && action[0] == '\0' && manifest_count(&s) == 9) {
            untouched++;
            assert_tree(&s, planned);
            assert_int_equal(act(&s, ROLLBACK, NULL, NULL), 0);
        }
        assert_tree(&s, before);
        assert_int_equal(manifest_count(&s), 0);
        assert_nothing_open(&s);
        scratch_close(&s);
        if (!killed)
            break;
    }
    assert_true(undone > 30);
    assert_true(untouched >= 2);
}

static void append(const struct scratch *s, const char *path, const char *text)
{
    AUTO(free_str) char *full = scratch_path(s, path);
    FILE *f = fopen(full, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_torn_line(void **state)
{
    static const char *const torn[] = {"{\"t\":\"done\",\"i\"", "{\"t\":\"done\"\n", "\n",
                                       "{\"before\":{\"exists\":false},\"i\":3,\"t\":\"inte"};
    for (size_t i = 0; i < ARRAY_LEN(torn); i++) {
        struct scratch s;
        fill(&s);
        AUTO(free_str) char *before = scratch_snapshot(&s);
        assert_true(dies(&s, APPLY, "t", 1, "sysctl.write"));
        append(&s, "/var/lib/muster/txn/t.jsonl", torn[i]);
        AUTO(free_str) char *action = recover(&s);
        assert_string_equal(action, "undone");
        assert_tree(&s, before);
        AUTO(free_str) char *journal = scratch_get(&s, "/var/lib/muster/txn/t.jsonl");
        assert_true(str_has_suffix(journal, "}\n{\"t\":\"undone\"}\n"));
        struct journal_log log;
        struct err err = {0};
        assert_ok(journal_load(&s.env, "t", &log, &err), err);
        assert_true(log.undone);
        assert_int_equal(log.good_bytes, strlen(journal));
        journal_log_release(&log);
        assert_nothing_open(&s);
        scratch_close(&s);
    }
}

static void test_damaged_journal(void **state)
{
    struct scratch s;
    fill(&s);
    assert_true(dies(&s, APPLY, "t", 1, "sysctl.write"));
    append(&s, "/var/lib/muster/txn/t.jsonl", "rubbish\n{\"t\":\"undone\"}\n");
    json_t *recovery = NULL;
    struct err err = {0};
    assert_int_equal(resources_recover(&s.env, &recovery, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_non_null(strstr(err.text, "/var/lib/muster/txn/t.jsonl line 13"));
    assert_int_equal(act(&s, APPLY, "t2", NULL), -1);
    scratch_close(&s);
}

static void test_step_that_fails(void **state)
{
    struct scratch s;
    fill(&s);
    AUTO(free_str) char *before = scratch_snapshot(&s);
    json_t *resources =
        scratch_json("[{'kind':'file','id':'/etc/changed.conf','params':{'content':'x'}},"
                     "{'kind':'file','id':'/etc/same.conf','params':{'content':'same\\n'}},"
                     "{'kind':'module','id':'refused','params':{}},"
                     "{'kind':'file','id':'/etc/late.conf','params':{'content':'x'}}]");
    static const struct {
        const char *outcome, *text;
    } want[] = {{"undone", "restored"},
                {"same", ""},
                {"failed", "module refused: modprobe ended with status 1: could not insert "
                           "'refused': Invalid argument"},
                {"undone", "not applied"}};
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_apply(&s.env, "t", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "undone");
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        json_t *item = json_array_get(json_object_get(data, "items"), i);
        assert_string_equal(jsonx_str_or(item, "outcome", ""), want[i].outcome);
        assert_string_equal(jsonx_str_or(item, "text", ""), want[i].text);
    }
    assert_tree(&s, before);
    assert_nothing_open(&s);
    json_decref(data);
    json_decref(resources);
    scratch_close(&s);
}

static void test_wrong_parameter_changes_nothing(void **state)
{
    struct scratch s;
    fill(&s);
    AUTO(free_str) char *before = scratch_snapshot(&s);
    json_t *resources =
        scratch_json("[{'kind':'file','id':'/etc/changed.conf','params':{'content':'x'}},"
                     "{'kind':'modprob_options','id':'m','params':{}}]");
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_apply(&s.env, "t", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "undone");
    json_t *items = json_object_get(data, "items");
    assert_string_equal(jsonx_str_or(json_array_get(items, 0), "text", ""), "not applied");
    assert_string_equal(
        jsonx_str_or(json_array_get(items, 1), "text", ""),
        "unknown kind of resource 'modprob_options'; did you mean 'modprobe_options'?");
    assert_false(journal_exists(&s.env, "t"));
    assert_tree(&s, before);
    json_decref(data);
    json_decref(resources);
    scratch_close(&s);
}

static void test_claims(void **state)
{
    static const struct {
        const char *resources, *reason;
    } vectors[] = {
        {"[{'kind':'file','id':'/etc/a','params':{'content':''}},"
         "{'kind':'file','id':'/etc/a','params':{'content':'x'}}]",
         "given twice: resources 1 and 2 are both file /etc/a"},
        {"[{'kind':'env_file','id':'/etc/a','params':{'format':'nccl','set':{}}},"
         "{'kind':'file','id':'/etc/a','params':{'content':'x'}}]",
         "/etc/a is claimed twice: by this resource and by env_file /etc/a (resource 1)"},
    };
    struct scratch s;
    fill(&s);
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        json_t *resources = scratch_json(vectors[i].resources), *items = NULL;
        struct err err = {0};
        assert_ok(resources_plan(&s.env, resources, &items, &err), err);
        assert_string_equal(jsonx_str_or(json_array_get(items, 1), "outcome", ""), "error");
        assert_string_equal(jsonx_str_or(json_array_get(items, 1), "reason", ""),
                            vectors[i].reason);
        json_decref(items);
        json_decref(resources);
    }
    /* Two parts of one file that contradict each other are found once both are applied. */
    json_t *resources = scratch_json(
        "[{'kind':'env_file','id':'/etc/v','params':{'format':'nccl','set':{'A':'1'}}},"
        "{'kind':'env_file','id':'/etc/v','params':{'format':'nccl','set':{'A':'2'}}}]");
    json_t *data = NULL;
    struct err err = {0};
    assert_ok(resources_apply(&s.env, "t", resources, &data, &err), err);
    assert_string_equal(jsonx_str_or(data, "state", ""), "undone");
    json_t *first = json_array_get(json_object_get(data, "items"), 0);
    assert_string_equal(jsonx_str_or(first, "outcome", ""), "failed");
    assert_string_equal(jsonx_str_or(first, "text", ""),
                        "it does not hold once all resources are applied: a later resource sets "
                        "the same thing differently");
    AUTO(free_str) char *text = scratch_get(&s, "/etc/v");
    assert_string_equal(text, "(none)");
    json_decref(data);
    json_decref(resources);
    scratch_close(&s);
}

static int rollback(const struct scratch *s, const char *txn, bool force, char **state,
                    struct err *err)
{
    json_t *data = NULL;
    *err = (struct err){0};
    int rc = resources_rollback(&s->env, txn, force, &data, err);
    *state = rc == 0 ? str_dup(jsonx_str_or(data, "state", "")) : NULL;
    json_decref(data);
    return rc;
}

static void test_rollback(void **state)
{
    struct scratch s;
    struct err err = {0};
    fill(&s);
    AUTO(free_str) char *before = scratch_snapshot(&s);
    AUTO(free_str) char *none = NULL;
    AUTO(free_str) char *refused = NULL;
    AUTO(free_str) char *forced = NULL;
    AUTO(free_str) char *again = NULL;
    AUTO(free_str) char *unknown = NULL;
    AUTO(free_str) char *end = NULL;
    assert_int_equal(rollback(&s, NULL, false, &none, &err), 0);
    assert_string_equal(none, "nothing");
    assert_int_equal(act(&s, APPLY, "t", NULL), 0);
    scratch_put(&s, "/etc/changed.conf", "by hand\n", 0644);
    AUTO(free_str) char *by_hand = scratch_snapshot(&s);
    assert_int_equal(rollback(&s, "t", false, &refused, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_string_equal(err.text,
                        "file /etc/changed.conf was changed since transaction t, by hand or by a "
                        "later transaction; nothing was rolled back (force overwrites it)");
    assert_tree(&s, by_hand);
    assert_int_equal(rollback(&s, NULL, true, &forced, &err), 0);
    assert_string_equal(forced, "undone");
    assert_tree(&s, before);
    assert_int_equal(manifest_count(&s), 0);
    assert_int_equal(rollback(&s, "t", false, &again, &err), -1);
    assert_string_equal(err.text, "transaction t is undone already");
    assert_int_equal(rollback(&s, "other", false, &unknown, &err), -1);
    assert_string_equal(err.text, "no transaction other was applied on this node");
    assert_int_equal(rollback(&s, NULL, false, &end, &err), 0);
    assert_string_equal(end, "nothing");
    assert_nothing_open(&s);
    scratch_close(&s);
}

/* Several transactions are undone newest first; the manifest follows. */
static void test_rollback_in_order(void **state)
{
    struct scratch s;
    struct err err = {0};
    scratch_open(&s);
    AUTO(free_str)
    char *a = scratch_apply1(&s, "zz-first", "file", "/etc/f", "{'content':'1'}", NULL);
    AUTO(free_str)
    char *b = scratch_apply1(&s, "aa-second", "file", "/etc/f", "{'content':'2'}", NULL);
    AUTO(free_str) char *c = NULL;
    AUTO(free_str) char *d = NULL;
    json_t *first = NULL, *now = NULL;
    assert_string_equal(a, "committed");
    assert_string_equal(b, "committed");
    assert_int_equal(rollback(&s, "zz-first", false, &c, &err), -1);
    assert_int_equal(err.kind, ERR_DATA);
    assert_int_equal(rollback(&s, NULL, false, &c, &err), 0);
    AUTO(free_str) char *text = scratch_get(&s, "/etc/f");
    assert_string_equal(text, "1");
    assert_ok(resources_manifest(&s.env, &first, &err), err);
    assert_string_equal(jsonx_str_or(first, "run", ""), "zz-first");
    assert_ok(resources_manifest_now(&s.env, first, &now, &err), err);
    assert_true(json_equal(first, now));
    json_decref(now);
    scratch_put(&s, "/etc/f", "other", 0644);
    assert_ok(resources_manifest_now(&s.env, first, &now, &err), err);
    assert_false(json_equal(first, now));
    json_decref(now);
    json_decref(first);
    assert_int_equal(rollback(&s, NULL, true, &d, &err), 0);
    assert_int_equal(manifest_count(&s), 0);
    scratch_close(&s);
}

/* A directory stands where the file was: the item says so, and the transaction stays open until the
 * way is clear. */
static void test_restore_fails(void **state)
{
    struct scratch s;
    fill(&s);
    AUTO(free_str) char *before = scratch_snapshot(&s);
    assert_true(dies(&s, APPLY, "t", 1, "sysctl.write"));
    AUTO(free_str) char *victim = scratch_path(&s, "/etc/changed.conf");
    assert_int_equal(unlink(victim), 0);
    assert_int_equal(mkdir(victim, 0755), 0);
    json_t *recovery = NULL, *data = NULL;
    struct err err = {0};
    assert_ok(resources_recover(&s.env, &recovery, &err), err);
    assert_string_equal(jsonx_str_or(recovery, "action", ""), "open");
    assert_string_equal(jsonx_str_or(recovery, "text", ""),
                        "transaction t was broken off and stays open: failed to restore file "
                        "/etc/changed.conf: cannot replace /etc/changed.conf: Is a directory");
    json_decref(recovery);
    AUTO(free_str) char *journal = scratch_get(&s, "/var/lib/muster/txn/t.jsonl");
    assert_non_null(strstr(journal, "{\"i\":0,\"t\":\"failed\",\"text\":\"failed to restore"));
    AUTO(free_str) char *gone = scratch_get(&s, "/etc/gone.conf");
    assert_string_equal(gone, "to go\n"); /* the others are back */
    json_t *resources = scratch_json(resources_text);
    assert_int_equal(resources_apply(&s.env, "t2", resources, &data, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_string_equal(err.text,
                        "transaction t was broken off on this node and is not undone yet");
    json_decref(resources);
    assert_int_equal(rmdir(victim), 0);
    AUTO(free_str) char *action = recover(&s);
    assert_string_equal(action, "undone");
    assert_tree(&s, before);
    assert_nothing_open(&s);
    scratch_close(&s);
}

static void test_lock(void **state)
{
    struct scratch s;
    struct err err = {0};
    int lock = -1;
    fill(&s);
    assert_ok(journal_lock(&s.env, &lock, &err), err);
    json_t *resources = scratch_json(resources_text), *data = NULL;
    assert_int_equal(resources_apply(&s.env, "t", resources, &data, &err), -1);
    assert_int_equal(err.kind, ERR_ENV);
    assert_true(str_has_prefix(err.text, "another transaction is running on this node (it holds "));
    json_decref(resources);
    close_fd(&lock);
    assert_int_equal(act(&s, APPLY, "t", NULL), 0);
    scratch_close(&s);
}

static void test_links_are_refused(void **state)
{
    struct scratch s;
    fill(&s);
    scratch_put(&s, "/outside/target", "secret\n", 0644);
    AUTO(free_str) char *outside = scratch_path(&s, "/outside");
    AUTO(free_str) char *dir_link = scratch_path(&s, "/etc/dir");
    AUTO(free_str) char *file_link = scratch_path(&s, "/etc/link.conf");
    AUTO(free_str) char *temp_link = scratch_path(&s, "/etc/.changed.conf.muster-new");
    AUTO(free_str) char *target = scratch_path(&s, "/outside/target");
    assert_int_equal(symlink(outside, dir_link), 0);
    assert_int_equal(symlink("/etc/shadow", file_link), 0);
    assert_int_equal(symlink(target, temp_link), 0);
    AUTO(free_str)
    char *want_dir =
        str_printf("/etc/dir is a symbolic link to '%s': nothing is written through links, name "
                   "the real path",
                   outside);
    const struct scratch_vector vectors[] = {
        {"/etc/dir/target", "{'content':'x'}", "error", want_dir},
        {"/etc/link.conf", "{'content':'x'}", "error",
         "/etc/link.conf is a symbolic link to '/etc/shadow': nothing is written through links, "
         "name the real path"},
    };
    scratch_check_vectors(&s, "file", vectors, ARRAY_LEN(vectors));
    /* A link planted under the temporary file's name is not followed either. */
    AUTO(free_str)
    char *done = scratch_apply1(&s, "t", "file", "/etc/changed.conf", "{'content':'new'}", NULL);
    assert_string_equal(done, "committed");
    AUTO(free_str) char *secret = scratch_get(&s, "/outside/target");
    assert_string_equal(secret, "secret\n");
    scratch_close(&s);
}

static void test_permissions(void **state)
{
    struct scratch s;
    fill(&s);
    pid_t pid = fork();
    if (pid == 0) {
        json_t *resources = scratch_json(resources_text), *data = NULL;
        struct err err = {0};
        bool refused = setuid(65534) == 0 &&
                       resources_apply(&s.env, "t", resources, &data, &err) == -1 &&
                       err.kind == ERR_ENV && err.native == EACCES;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    scratch_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_apply_twice),
        cmocka_unit_test(test_killed_while_applying),
        cmocka_unit_test(test_killed_while_undoing),
        cmocka_unit_test(test_killed_while_recovering),
        cmocka_unit_test(test_killed_while_rolling_back),
        cmocka_unit_test(test_torn_line),
        cmocka_unit_test(test_damaged_journal),
        cmocka_unit_test(test_step_that_fails),
        cmocka_unit_test(test_wrong_parameter_changes_nothing),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_rollback),
        cmocka_unit_test(test_rollback_in_order),
        cmocka_unit_test(test_restore_fails),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_links_are_refused),
        cmocka_unit_test(test_permissions),
    };
    if (geteuid() != 0) {
        printf("skipped: only root can become somebody who may not write\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
