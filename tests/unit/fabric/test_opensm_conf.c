#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/opensm_argv.h"
#include "fabric/subnet/opensm_conf.h"
#include "fabric/subnet/sm_check.h"
#include "subnet_net.h"

static json_t *fabric_of(const char *members)
{
    struct err err = {0};
    json_t *fabric = NULL;
    AUTO(free_str)
    char *text = str_printf("{\"kind\":\"infiniband\",\"subnet_managers\":[\"sm1\",\"sm2\"]%s%s}",
                            *members ? "," : "", members);
    if (jsonx_parse(text, strlen(text), "fabric", &fabric, &err) != 0)
        fail_msg("%s", err.text);
    return fabric;
}

static const char *file_text(const struct opensm_files *set, const char *host, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->files[i].host, host) == 0 && strcmp(set->files[i].name, name) == 0)
            return set->files[i].text;
    fail_msg("no file %s/%s", host, name);
    return NULL;
}

static void files_of_a_plain_site(void **state)
{
    (void)state;
    struct opensm_files set = {0};
    struct err err = {0};
    json_auto_t *fabric = fabric_of("\"routing\":\"ftree\",\"mtu\":4096,\"rate_bps\":400000000000");
    assert_int_equal(opensm_conf_make(fabric, "/etc/opensm", &set, &err), 0);
    assert_int_equal(set.count, 3);
    assert_string_equal(file_text(&set, "", "partitions.conf"),
                        "# Made by muster; edit the site file instead.\n"
                        "Default=0x7fff, ipoib, mtu=5, rate=21, sl=0 : ALL=full, SELF=full ;\n");
    assert_string_equal(file_text(&set, "sm2", "opensm.conf"),
                        "# Made by muster for sm2; edit the site file instead.\n"
                        "guid 0x0000000000000000\nsm_priority 13\n"
                        "routing_engine ftree,no_fallback\nlmc 0\nsweep_interval 10\n"
                        "sminfo_polling_timeout 1000\npolling_retry_number 3\nmax_op_vls 5\n"
                        "partition_config_file /etc/opensm/partitions.conf\npart_enforce both\n"
                        "connect_roots TRUE\nqos FALSE\n"
                        "force_log_flush TRUE\nlog_file /var/log/opensm.log\nlog_max_size 100\n"
                        "console off\n");
    opensm_files_release(&set);
}

static void torus(void **state)
{
    (void)state;
    struct opensm_files set = {0};
    struct err err = {0};
    json_auto_t *fabric =
        fabric_of("\"routing\":\"torus-2QoS\",\"subnet\":{\"torus\":{\"size\":[2,2,1],\"seeds\":[{"
                  "\"xp_link\":[\"0xa\",\"0xb\"],\"yp_link\":[\"0xa\",\"0xc\"]}]}}");
    if (opensm_conf_make(fabric, "/o", &set, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(file_text(&set, "", "torus-2QoS.conf"),
                        "torus 2 2 1\nportgroup_max_ports 64\nxp_link 0xa 0xb\nyp_link 0xa 0xc\n");
    const char *conf = file_text(&set, "sm1", "opensm.conf");
    assert_non_null(strstr(conf, "\nqos TRUE\n"));
    assert_non_null(strstr(conf, "\nqos_ca_vlarb_low 0:4,1:4,2:0,3:0,4:0,5:0,6:0,7:0\n"));
    opensm_files_release(&set);
}

static void qos_and_roots(void **state)
{
    (void)state;
    struct opensm_files set = {0};
    struct err err = {0};
    json_auto_t *fabric = fabric_of(
        "\"routing\":\"updn\",\"subnet\":{\"priorities\":[9,3],\"roots\":[\"0xa1\"],\"qos\":["
        "{\"name\":\"DEFAULT\",\"sl\":0,\"share\":70},{\"name\":\"fs\",\"sl\":5,\"share\":30}]}");
    if (opensm_conf_make(fabric, "/o", &set, &err) != 0)
        fail_msg("%s", err.text);
    assert_string_equal(file_text(&set, "", "root-guids.conf"), "0xa1\n");
    const char *conf = file_text(&set, "sm1", "opensm.conf");
    assert_non_null(strstr(conf, "sm_priority 9\n"));
    assert_non_null(strstr(conf, "\nqos_vlarb_low 0:178,1:76\n"));
    assert_non_null(strstr(conf, "\nqos_sl2vl 0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0\n"));
    assert_non_null(strstr(file_text(&set, "", "qos-policy.conf"), "    default : 0\n"));
    opensm_files_release(&set);
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members, *error;
    } cases[] = {
        {"\"routing\":\"ftre\"",
         "fabric.routing: opensm has no routing engine 'ftre', did you mean 'ftree'?; it would "
         "take "
         "minhop without a word. There are minhop, updn, dnup, ftree, lash, dor, torus-2QoS, nue, "
         "dfsssp and sssp"},
        {"\"subnet\":{\"lmc\":8}", "fabric.subnet.lmc: must be an integer of 0 to 7, is 8"},
        {"\"subnet\":{\"lmc\":\"1\"}", "fabric.subnet.lmc: must be an integer of 0 to 7, is \"1\""},
        {"\"subnet\":{\"priorities\":[16,1]}", "fabric.subnet.priorities: must be 0 to 15, is 16"},
        {"\"subnet\":{\"priorities\":[5,5]}",
         "fabric.subnet.priorities: 5 of sm2 is not below 5 of sm1: with equal priorities the GUID "
         "decides who is master, with a higher one the order of subnet_managers is wrong"},
        {"\"subnet\":{\"priorities\":[5]}",
         "fabric.subnet.priorities: 1 numbers for 2 subnet managers"},
        {"\"subnet\":{\"guids\":{\"sm1\":\"0x7fe\"}}",
         "fabric.subnet.guids: no port GUID for sm2 (`ibstat -p` there)"},
        {"\"subnet\":{\"guids\":{\"sm1\":\"7fe\",\"sm2\":\"0x1\"}}",
         "fabric.subnet.guids.sm1: '7fe' is not a GUID such as 0xb8599f0300100001"},
        {"\"subnet\":{\"fall_back_to\":[\"up\"]}",
         "fabric.subnet.fall_back_to: opensm has no routing engine 'up'; it would take minhop "
         "without a word. There are minhop, updn, dnup, ftree, lash, dor, torus-2QoS, nue, dfsssp "
         "and sssp"},
        {"\"routing\":\"torus-2QoS\"",
         "fabric.routing: torus-2QoS needs fabric.subnet.torus with the "
         "size and the seed links"},
        {"\"routing\":\"torus-2QoS\",\"subnet\":{\"torus\":{\"size\":[4,1,1],\"seeds\":[{"
         "\"xp_link\":[\"0xa\",\"0xb\"]}]}}",
         "fabric.subnet.torus.seeds: xm_link: [SWITCH GUID, SWITCH GUID] is missing (radix 4)"},
        {"\"subnet\":{\"partitions\":[{\"name\":\"p\",\"key\":\"0x8010\",\"members\":{\"ALL\":"
         "\"full\"}}]}",
         "fabric.subnet.partitions.p: key: must be 0x0001 to 0x7fff (the top bit is the "
         "membership, "
         "opensm would cut it off)"},
        {"\"subnet\":{\"partitions\":[{\"name\":\"p\",\"key\":16,\"members\":{\"0x1\":\"limited\"}}"
         "]"
         "}",
         "fabric.subnet.partitions.p: has no full member: limited members cannot talk to each "
         "other"},
        {"\"subnet\":{\"partitions\":[{\"name\":\"p\",\"key\":16,\"members\":{\"ALL\":\"ful\"}}]}",
         "fabric.subnet.partitions.p: members: ALL must be full or limited, is 'ful'"},
        {"\"subnet\":{\"partitions\":[{\"name\":\"p\",\"key\":16,\"ipoib\":true,\"rate\":\"200\","
         "\"members\":{\"ALL\":\"full\"}}]}",
         NULL},
        {"\"rate_bps\":123000000",
         "fabric.subnet.partitions.Default: rate: no InfiniBand link runs at 123 Mbit/s; take that "
         "of the slowest member"},
        {"\"subnet\":{\"qos\":[{\"name\":\"DEFAULT\",\"sl\":0,\"share\":99}]}",
         "fabric.subnet.qos: the shares add up to 99 percent, not 100"},
        {"\"subnet\":{\"qos\":[{\"name\":\"x\",\"sl\":0,\"share\":100}]}",
         "fabric.subnet.qos: one level must be named DEFAULT, else opensm drops the whole policy"},
        {"\"routing\":\"torus-2QoS\",\"subnet\":{\"torus\":{},\"qos\":[]}",
         "fabric.subnet.qos: torus-2QoS uses service levels and lanes itself, against deadlock; "
         "levels "
         "of the site would break that"},
        {"\"subnet\":{\"qos\":[{\"name\":\"x\",\"sl\":16,\"share\":100}]}",
         "fabric.subnet.qos.x: sl: must be 0 to 15"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct opensm_files set = {0};
        struct err err = {0};
        json_auto_t *fabric = fabric_of(cases[i].members);
        assert_int_equal(opensm_conf_make(fabric, "/o", &set, &err), -1);
        assert_int_equal(err.kind, ERR_USAGE);
        if (cases[i].error)
            assert_string_equal(err.text, cases[i].error);
        assert_int_equal(set.count, 0);
    }
}

static void command_lines_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *args[8];
        const char *subjects; /* of the findings */
    } cases[] = {
        {{"-g", "0x7fe", "--torus_conf", "2x2x2", "-p", "0x1", "-F"},
         "-g --torus_conf --torus_config -p -F -R -Q"},
        {{"-B", "-F", "/etc/opensm/opensm.conf"}, ""},
        {{"-BF", "/etc/opensm/opensm.conf"}, ""},
        {{"-p", "16"}, "-p"},
        {{"-p", "abc"}, "-p"},
        {{"-R", "ftree,updm"}, "-R"},
        {{"-J", "x"}, "-J x"},
        {{"--priorty", "3"}, "--priorty 3"},
        {{"--guid=0xb8599f0300100001", "--priority=14"}, ""},
        {{"-R", "torus-2QoS", "--torus_config", "/t"}, "-Q"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t count = 0, k;
        while (count < 8 && cases[i].args[count])
            count++;
        json_auto_t *findings = json_array();
        json_t *f;
        AUTO(free_str) char *right = opensm_argv_explain(cases[i].args, count, findings);
        struct strbuf subjects = {0};
        strbuf_puts(&subjects, "");
        json_array_foreach(findings, k, f)
            strbuf_printf(&subjects, "%s%s", k ? " " : "", jsonx_str_or(f, "subject", "?"));
        assert_string_equal(subjects.data, cases[i].subjects);
        assert_true(str_has_prefix(right, "opensm -B -F "));
        strbuf_release(&subjects);
    }
}

static void add_sm(struct subnet *s, int node, enum subnet_sm_state state, unsigned priority)
{
    s->sms = mem_grow(s->sms, s->sm_count + 1, sizeof *s->sms);
    s->sms[s->sm_count++] = (struct subnet_sm){
        .node = node, .port = 1, .answered = true, .state = state, .priority = priority};
}

static void managers_are_judged(void **state)
{
    (void)state;
    static const struct {
        struct {
            int node;
            enum subnet_sm_state state;
            unsigned priority;
        } sms[3];
        const char *managers, *causes;
    } cases[] = {
        {{{N1, SUBNET_SM_MASTER, 14}, {N4, SUBNET_SM_STANDBY, 13}}, "n1 n4", ""},
        {{{N1, SUBNET_SM_MASTER, 14}}, "n1 n4", "sm-standby-missing"},
        {{{N4, SUBNET_SM_MASTER, 13}}, "n1 n4", "sm-wrong-node"},
        {{{N1, SUBNET_SM_MASTER, 14}, {N4, SUBNET_SM_MASTER, 13}}, "n1 n4", "sm-two-masters"},
        {{{N1, SUBNET_SM_MASTER, 3}, {N4, SUBNET_SM_STANDBY, 3}}, "n1 n4", "sm-priority-tie"},
        {{{N1, SUBNET_SM_STANDBY, 3}}, "", "sm-missing"},
        {{{-1, 0, 0}}, "n1", "sm-missing sm-wrong-node"},
        {{{SPINE, SUBNET_SM_MASTER, 15}}, "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct subnet s;
        json_auto_t *findings = json_array(), *hosts = json_array();
        net_make(&s);
        for (size_t k = 0; k < 3; k++)
            if (cases[i].sms[k].node > 0 || cases[i].sms[k].state)
                add_sm(&s, cases[i].sms[k].node, cases[i].sms[k].state, cases[i].sms[k].priority);
        AUTO(free_str) char *names = str_dup(cases[i].managers);
        char *rest = NULL;
        for (char *n = strtok_r(names, " ", &rest); n; n = strtok_r(NULL, " ", &rest))
            jsonx_append_str(hosts, n);
        const struct sm_expect expect = {.managers = json_array_size(hosts) ? hosts : NULL};
        sm_check_subnet(&s, &expect, findings);
        struct strbuf causes = {0};
        size_t k;
        json_t *f;
        strbuf_puts(&causes, "");
        json_array_foreach(findings, k, f)
            strbuf_printf(&causes, "%s%s", k ? " " : "", jsonx_str_or(f, "cause", "?"));
        assert_string_equal(causes.data, cases[i].causes);
        strbuf_release(&causes);
        subnet_release(&s);
    }
}

static void logs_are_judged(void **state)
{
    (void)state;
    static const struct {
        const char *log, *cause;
    } cases[] = {
        {"Entering MASTER state\nx: ftree tables configured on all switches\nSUBNET UP\n", NULL},
        {"Entering STANDBY state\n", "sm-not-up"},
        {"SUBNET UP\nEntering MASTER state\n", "sm-not-up"},
        {"Entering MASTER state\nx: minhop tables configured on all switches\nSUBNET UP\n",
         "sm-routing"},
        {"Entering MASTER state\nPartition configuration in error; retrying\nSUBNET UP\n",
         "sm-partitions"},
        {"Entering MASTER state\n01 yyerror: ERR AC05: Syntax error\nSUBNET UP\n", "sm-qos"},
    };
    const struct sm_expect expect = {.routing = "ftree"};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_auto_t *findings = json_array();
        sm_check_log(cases[i].log, "osm.log", &expect, findings);
        assert_int_equal(json_array_size(findings), cases[i].cause ? 1 : 0);
        if (cases[i].cause)
            assert_string_equal(jsonx_str_or(json_array_get(findings, 0), "cause", ""),
                                cases[i].cause);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_plain_site),
        cmocka_unit_test(torus),
        cmocka_unit_test(qos_and_roots),
        cmocka_unit_test(mistakes_are_refused),
        cmocka_unit_test(command_lines_are_explained),
        cmocka_unit_test(managers_are_judged),
        cmocka_unit_test(logs_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
