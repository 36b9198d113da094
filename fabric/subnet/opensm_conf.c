#include "fabric/subnet/opensm_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/jsonx.h"
#include "common/util.h"

const char *const opensm_engines[] = {"minhop",     "updn", "dnup",   "ftree", "lash", "dor",
                                      "torus-2QoS", "nue",  "dfsssp", "sssp",  NULL};

enum { TOP_PRIORITY = 15, FIRST_PRIORITY = 14, MAX_DIMENSION = 1000 };

/* Integer keys of fabric.subnet that become one line of opensm.conf. */
static const struct {
    const char *key, *opensm_key;
    int64_t min, max, fallback;
} numbers[] = {
    {"lmc", "lmc", 0, 7, 0},
    {"sweep_interval", "sweep_interval", 0, 86400, 10},
    /* A lost master is noticed after about (retries + 2) polls: the defaults of opensm, 10 s and 4,
     * take a minute. */
    {"poll_ms", "sminfo_polling_timeout", 100, 60000, 1000},
    {"poll_retries", "polling_retry_number", 1, 100, 3},
    {"max_op_vls", "max_op_vls", 1, 5, 5},
};

static const char *const subnet_keys[] = {
    "lmc",   "sweep_interval", "poll_ms", "poll_retries", "max_op_vls", "priorities",
    "guids", "fall_back_to",   "roots",   "torus",        "partitions", "qos",
    NULL};

int opensm_check_guid(const char *text, const char *what, struct err *err)
{
    size_t digits = str_has_prefix(text, "0x") ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits == 0 || digits > 16 || text[2 + digits] || strspn(text + 2, "0") == digits)
        return err_set(err, ERR_USAGE, "%s: '%.40s' is not a GUID such as 0xb8599f0300100001", what,
                       text);
    return 0;
}

static bool is_engine(const char *name)
{
    for (size_t i = 0; opensm_engines[i]; i++)
        if (strcmp(opensm_engines[i], name) == 0)
            return true;
    return false;
}

static int check_engine(const char *name, const char *what, struct err *err)
{
    if (is_engine(name))
        return 0;
    const char *near = str_nearest(name, opensm_engines);
    return err_set(err, ERR_USAGE,
                   "%s: opensm has no routing engine '%.40s'%s%s%s; it would take minhop without a "
                   "word. There are minhop, updn, dnup, ftree, lash, dor, torus-2QoS, nue, dfsssp "
                   "and sssp",
                   what, name, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* "ftree,updn" or "ftree,no_fallback": what opensm does when the first engine fails is always said.
 */
static int engine_line(const json_t *fabric, const json_t *subnet, char **line, struct err *err)
{
    const char *routing = jsonx_str_or(fabric, "routing", "minhop");
    const json_t *others = json_object_get(subnet, "fall_back_to");
    if (check_engine(routing, "fabric.routing", err) != 0)
        return -1;
    if (others && !json_is_array(others))
        return err_set(err, ERR_USAGE, "fabric.subnet.fall_back_to: must be a list of engines");
    struct strbuf b = {0};
    strbuf_puts(&b, routing);
    size_t i;
    json_t *other;
    json_array_foreach(others, i, other)
    {
        const char *name = json_is_string(other) ? json_string_value(other) : "";
        if (check_engine(name, "fabric.subnet.fall_back_to", err) != 0) {
            strbuf_release(&b);
            return -1;
        }
        strbuf_printf(&b, ",%s", name);
    }
    if (json_array_size(others) == 0)
        strbuf_puts(&b, ",no_fallback");
    *line = b.data;
    return 0;
}

static int add_numbers(const json_t *subnet, struct strbuf *b, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const json_t *value = json_object_get(subnet, numbers[i].key);
        int64_t n = value ? json_integer_value(value) : numbers[i].fallback;
        if (value && (!json_is_integer(value) || n < numbers[i].min || n > numbers[i].max)) {
            AUTO(free_str) char *is = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
            return err_set(err, ERR_USAGE,
                           "fabric.subnet.%s: must be an integer of %lld to %lld, is %.60s",
                           numbers[i].key, (long long)numbers[i].min, (long long)numbers[i].max,
                           is ? is : "?");
        }
        strbuf_printf(b, "%s %lld\n", numbers[i].opensm_key, (long long)n);
    }
    return 0;
}

/* The list of managers says who is first; explicit priorities must say the same. */
static int priority_of(const json_t *managers, const json_t *subnet, size_t at, int64_t *priority,
                       struct err *err)
{
    const json_t *list = json_object_get(subnet, "priorities");
    size_t count = json_array_size(managers);
    if (!list) {
        *priority = FIRST_PRIORITY - (int64_t)at;
        return *priority < 0 ? err_set(err, ERR_USAGE, "fabric.subnet_managers: more than %d hosts",
                                       FIRST_PRIORITY + 1)
                             : 0;
    }
    if (json_array_size(list) != count)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.priorities: %zu numbers for %zu subnet managers",
                       json_array_size(list), count);
    const json_t *own = json_array_get(list, at),
                 *before = at ? json_array_get(list, at - 1) : NULL;
    *priority = json_integer_value(own);
    if (!json_is_integer(own) || *priority < 0 || *priority > TOP_PRIORITY) {
        AUTO(free_str) char *is = json_dumps(own, JSON_ENCODE_ANY | JSON_COMPACT);
        return err_set(err, ERR_USAGE, "fabric.subnet.priorities: must be 0 to %d, is %.40s",
                       TOP_PRIORITY, is ? is : "?");
    }
    if (before && json_integer_value(before) <= *priority)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.priorities: %lld of %s is not below %lld of %s: with equal "
                       "priorities the GUID decides who is master, with a higher one the order of "
                       "subnet_managers is wrong",
                       (long long)*priority, json_string_value(json_array_get(managers, at)),
                       (long long)json_integer_value(before),
                       json_string_value(json_array_get(managers, at - 1)));
    return 0;
}

static int guid_of(const json_t *subnet, const char *host, const char **guid, struct err *err)
{
    const json_t *guids = json_object_get(subnet, "guids");
    *guid = "0x0000000000000000"; /* opensm's word for the first port that is up */
    if (!guids)
        return 0;
    const json_t *own = json_object_get(guids, host);
    if (!json_is_string(own))
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.guids: no port GUID for %s (`ibstat -p` there)", host);
    AUTO(free_str) char *what = str_printf("fabric.subnet.guids.%s", host);
    *guid = json_string_value(own);
    return opensm_check_guid(*guid, what, err);
}

static int roots_text(const json_t *roots, char **text, struct err *err)
{
    struct strbuf b = {0};
    size_t i;
    json_t *guid;
    if (!json_is_array(roots) || json_array_size(roots) == 0)
        return err_set(err, ERR_USAGE, "fabric.subnet.roots: must be a list of switch GUIDs");
    json_array_foreach(roots, i, guid)
    {
        const char *one = json_is_string(guid) ? json_string_value(guid) : "";
        if (opensm_check_guid(one, "fabric.subnet.roots", err) != 0) {
            strbuf_release(&b);
            return -1;
        }
        strbuf_printf(&b, "%s\n", one);
    }
    *text = b.data;
    return 0;
}

/* torus: { size: [2, 2, 2], seeds: [{xp_link: [GUID, GUID], yp_link: ...}] } */
static int torus_seed(const json_t *seed, const json_t *size, struct strbuf *b, struct err *err)
{
    static const char *const plus[] = {"xp_link", "yp_link", "zp_link"};
    static const char *const minus[] = {"xm_link", "ym_link", "zm_link"};
    static const char *const keys[] = {"xp_link", "yp_link", "zp_link", "xm_link",
                                       "ym_link", "zm_link", NULL};
    if (jsonx_only_keys(seed, "fabric.subnet.torus.seeds", keys, err) != 0)
        return -1;
    for (size_t d = 0; d < ARRAY_LEN(plus); d++)
        for (size_t way = 0; way < 2; way++) {
            const char *key = way ? minus[d] : plus[d];
            int64_t radix = json_integer_value(json_array_get(size, d));
            const json_t *ends = json_object_get(seed, key);
            bool needed = radix > 1 && (way == 0 || radix == 4);
            if (!ends && !needed)
                continue;
            if (json_array_size(ends) != 2)
                return err_set(
                    err, ERR_USAGE,
                    "fabric.subnet.torus.seeds: %s: [SWITCH GUID, SWITCH GUID] is missing "
                    "(radix %lld)",
                    key, (long long)radix);
            strbuf_puts(b, key);
            for (size_t e = 0; e < 2; e++) {
                const json_t *end = json_array_get(ends, e);
                const char *guid = json_is_string(end) ? json_string_value(end) : "";
                if (opensm_check_guid(guid, "fabric.subnet.torus.seeds", err) != 0)
                    return -1;
                strbuf_printf(b, " %s", guid);
            }
            strbuf_puts(b, "\n");
        }
    return 0;
}

/* The arbitration that torus-2QoS needs: its lanes come in equal pairs on switches and as two lanes
 * at the ends; opensm's default starves some of them. */
static const char torus_arbitration[] =
    "qos_vlarb_high 0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64\n"
    "qos_vlarb_low 0:4,1:4,2:4,3:4,4:4,5:4,6:4,7:4\n"
    "qos_swe_vlarb_high 0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64\n"
    "qos_swe_vlarb_low 0:4,1:4,2:4,3:4,4:4,5:4,6:4,7:4\n"
    "qos_ca_vlarb_high 0:64,1:64,2:0,3:0,4:0,5:0,6:0,7:0\n"
    "qos_ca_vlarb_low 0:4,1:4,2:0,3:0,4:0,5:0,6:0,7:0\n"
    "qos_sw0_vlarb_high 0:64,1:64,2:0,3:0,4:0,5:0,6:0,7:0\n"
    "qos_sw0_vlarb_low 0:4,1:4,2:0,3:0,4:0,5:0,6:0,7:0\n"
    "qos_rtr_vlarb_high 0:64,1:64,2:0,3:0,4:0,5:0,6:0,7:0\n"
    "qos_rtr_vlarb_low 0:4,1:4,2:0,3:0,4:0,5:0,6:0,7:0\n";

static int torus_lines(const json_t *torus, struct strbuf *b, struct err *err)
{
    static const char *const keys[] = {"size", "seeds", NULL};
    const json_t *size = json_object_get(torus, "size"), *seeds = json_object_get(torus, "seeds");
    size_t i;
    json_t *item;
    if (!json_is_object(torus) || jsonx_only_keys(torus, "fabric.subnet.torus", keys, err) != 0)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.torus: must be { size: [X, Y, Z], seeds: [] }");
    if (json_array_size(size) != 3 || json_array_size(seeds) == 0)
        return err_set(err, ERR_USAGE,
                       "fabric.subnet.torus: needs size: [X, Y, Z] and at least one of seeds, the "
                       "links of one switch in each dimension");
    strbuf_puts(b, "torus");
    json_array_foreach(size, i, item)
    {
        if (!json_is_integer(item) || json_integer_value(item) < 1 ||
            json_integer_value(item) > MAX_DIMENSION)
            return err_set(err, ERR_USAGE,
                           "fabric.subnet.torus.size: must be three integers from 1");
        strbuf_printf(b, " %lld", (long long)json_integer_value(item));
    }
    strbuf_puts(b, "\nportgroup_max_ports 64\n");
    json_array_foreach(seeds, i, item)
    {
        strbuf_puts(b, i ? "next_seed\n" : "");
        if (torus_seed(item, size, b, err) != 0)
            return -1;
    }
    return 0;
}

static void add_file(struct opensm_files *set, const char *host, const char *name, char *text)
{
    set->files = mem_grow(set->files, set->count + 1, sizeof *set->files);
    set->files[set->count++] = (struct opensm_file){str_dup(host), name, text};
}

void opensm_files_release(struct opensm_files *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->files[i].host);
        free(set->files[i].text);
    }
    free(set->files);
    *set = (struct opensm_files){0};
}

/* The files that all managers share, and the lines of opensm.conf that name them. */
static int shared_files(const json_t *fabric, const json_t *subnet, const char *dir,
                        struct opensm_files *set, struct strbuf *b, struct err *err)
{
    const json_t *roots = json_object_get(subnet, "roots"), *qos = json_object_get(subnet, "qos");
    const json_t *torus = json_object_get(subnet, "torus");
    const char *routing = jsonx_str_or(fabric, "routing", "minhop");
    bool is_torus = strcmp(routing, "torus-2QoS") == 0;
    char *text = NULL;
    if (is_torus != (torus != NULL))
        return err_set(err, ERR_USAGE,
                       is_torus ? "fabric.routing: torus-2QoS needs fabric.subnet.torus "
                                  "with the size and the seed links"
                                : "fabric.subnet.torus: only routing torus-2QoS reads it");
    if (is_torus && qos)
        return err_set(
            err, ERR_USAGE,
            "fabric.subnet.qos: torus-2QoS uses service levels and lanes itself, against "
            "deadlock; levels of the site would break that");
    if (opensm_partitions_text(fabric, json_object_get(subnet, "partitions"), &text, err) != 0)
        return -1;
    add_file(set, "", "partitions.conf", text);
    strbuf_printf(b, "partition_config_file %s/partitions.conf\npart_enforce both\n", dir);
    if (roots) {
        if (roots_text(roots, &text, err) != 0)
            return -1;
        add_file(set, "", "root-guids.conf", text);
        strbuf_printf(b, "root_guid_file %s/root-guids.conf\n", dir);
    }
    /* Without it the tables between spines stay empty, and management by LID fails there. */
    if (strcmp(routing, "ftree") == 0 || roots)
        strbuf_puts(b, "connect_roots TRUE\n");
    if (is_torus) {
        struct strbuf t = {0};
        if (torus_lines(torus, &t, err) != 0) {
            strbuf_release(&t);
            return -1;
        }
        add_file(set, "", "torus-2QoS.conf", t.data);
        strbuf_printf(b, "torus_config %s/torus-2QoS.conf\n%s", dir, torus_arbitration);
    }
    if (qos && opensm_qos_check(qos, err) != 0)
        return -1;
    strbuf_printf(b, "qos %s\n", qos || is_torus ? "TRUE" : "FALSE");
    if (qos) {
        AUTO(free_str) char *lines = opensm_qos_conf_text(qos);
        add_file(set, "", "qos-policy.conf", opensm_qos_policy_text(qos));
        strbuf_printf(b, "qos_policy_file %s/qos-policy.conf\n%s", dir, lines);
    }
    return 0;
}

static int manager_file(const json_t *managers, const json_t *subnet, size_t at, const char *common,
                        struct opensm_files *set, struct err *err)
{
    const char *host = json_string_value(json_array_get(managers, at)), *guid;
    int64_t priority = 0;
    if (priority_of(managers, subnet, at, &priority, err) != 0 ||
        guid_of(subnet, host, &guid, err) != 0)
        return -1;
    add_file(set, host, "opensm.conf",
             str_printf("# Made by muster for %s; edit the site file instead.\n"
                        "guid %s\nsm_priority %lld\n%s",
                        host, guid, (long long)priority, common));
    return 0;
}

/* Names become directories and stand in the files. */
static int check_managers(const json_t *managers, struct err *err)
{
    size_t i;
    json_t *host;
    json_array_foreach(managers, i, host)
    {
        struct hostlist one = {0};
        struct err why = {0};
        const char *name = json_is_string(host) ? json_string_value(host) : "";
        bool good = hostlist_parse(name, &one, &why) == 0 && one.count == 1 &&
                    strcmp(one.names[0], name) == 0;
        hostlist_release(&one);
        if (!good)
            return err_set(err, ERR_USAGE, "fabric.subnet_managers: '%.40s' is not a host's name",
                           name);
    }
    return i > 0 ? 0 : err_set(err, ERR_USAGE, "fabric.subnet_managers: names no host");
}

static int make(const json_t *fabric, const json_t *subnet, const char *dir,
                struct opensm_files *set, struct strbuf *b, struct err *err)
{
    const json_t *managers = json_object_get(fabric, "subnet_managers");
    AUTO(free_str) char *engines = NULL;
    if (strcmp(jsonx_str_or(fabric, "kind", ""), "infiniband") != 0)
        return err_set(err, ERR_USAGE, "fabric.kind: a subnet manager needs infiniband, not %s",
                       jsonx_str_or(fabric, "kind", "nothing"));
    if (check_managers(managers, err) != 0)
        return -1;
    if (subnet && (!json_is_object(subnet) ||
                   jsonx_only_keys(subnet, "fabric.subnet", subnet_keys, err) != 0))
        return err_set(err, ERR_USAGE, "fabric.subnet: must be a mapping");
    if (engine_line(fabric, subnet, &engines, err) != 0)
        return -1;
    strbuf_printf(b, "routing_engine %s\n", engines);
    if (add_numbers(subnet, b, err) != 0 || shared_files(fabric, subnet, dir, set, b, err) != 0)
        return -1;
    /* Else "SUBNET UP" stays in a buffer, and nobody can prove that it was reached. */
    strbuf_puts(b, "force_log_flush TRUE\nlog_file /var/log/opensm.log\nlog_max_size 100\n"
                   "console off\n");
    for (size_t i = 0; i < json_array_size(managers); i++)
        if (manager_file(managers, subnet, i, b->data, set, err) != 0)
            return -1;
    return 0;
}

int opensm_conf_make(const json_t *fabric, const char *dir, struct opensm_files *files,
                     struct err *err)
{
    struct opensm_files set = {0};
    struct strbuf b = {0};
    struct err why = {0};
    int status = make(fabric, json_object_get(fabric, "subnet"), dir, &set, &b, &why);
    strbuf_release(&b);
    if (status != 0) {
        opensm_files_release(&set);
        return err_set(err, ERR_USAGE, "%s", why.text);
    }
    *files = set;
    return 0;
}
