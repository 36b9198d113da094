#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "common/jsonx.h"
#include "common/util.h"
#include "fabric/subnet/cables.h"
#include "subnet_net.h"

static const char whole[] = "hosts=n[1-4] hcas=mlx5_0 leaves=leaf[1-2] spines=spine1 rate=4xHDR";

static void plan_make(struct cable_plan *plan, const char *description)
{
    struct err err = {0};
    if (cable_plan_generate(description, plan, &err) != 0)
        fail_msg("%s", err.text);
}

/* "CAUSE SUBJECT: TEXT" of each finding, one per line. */
static char *findings_text(const json_t *findings)
{
    struct strbuf b = {0};
    size_t i;
    json_t *f;
    strbuf_puts(&b, "");
    json_array_foreach(findings, i, f)
        strbuf_printf(&b, "%s %s: %s\n", jsonx_str_or(f, "cause", "?"),
                      jsonx_str_or(f, "subject", "?"), jsonx_str_or(f, "text", "?"));
    return b.data;
}

/* What was changed by hand, and what must be said about it. */
struct fault {
    const char *name;
    void (*plant)(struct subnet *s);
    const char *text;
    size_t in_place, moves, to_plug, to_remove;
};

static void nothing(struct subnet *s)
{
    (void)s;
}

static void swap_hosts(struct subnet *s)
{
    net_down(s, N1, 1);
    net_down(s, N2, 1);
    net_up(s, N1, 1, LEAF1, 2);
    net_up(s, N2, 1, LEAF1, 1);
}

static void rotate_three(struct subnet *s)
{
    swap_hosts(s);
    net_down(s, N1, 1);
    net_down(s, N3, 1);
    net_up(s, N3, 1, LEAF1, 2);
    net_up(s, N1, 1, LEAF2, 1);
}

static void wrong_port(struct subnet *s)
{
    net_down(s, N1, 1);
    net_up(s, N1, 1, LEAF1, 4);
}

/* Host 1 sits in host 2's port, host 2's cable is out. */
static void wrong_port_and_missing(struct subnet *s)
{
    net_down(s, N1, 1);
    net_down(s, N2, 1);
    net_up(s, N1, 1, LEAF1, 2);
}

static void missing(struct subnet *s)
{
    net_down(s, LEAF2, 3);
}

static void extra(struct subnet *s)
{
    net_up(s, LEAF1, 4, LEAF2, 4);
}

static void narrow(struct subnet *s)
{
    s->nodes[LEAF1].ports[3].width_active = s->nodes[SPINE].ports[1].width_active = 1;
}

static void slow(struct subnet *s)
{
    s->nodes[N4].ports[1].speed_active = s->nodes[LEAF2].ports[2].speed_active = RATE_EDR;
}

static const struct fault faults[] = {
    {"nothing", nothing, "", 6, 0, 0, 0},
    {"swap", swap_hosts,
     "cable-swapped leaf1 port 1, leaf1 port 2: Two cables are swapped: exchange the plugs in "
     "leaf1 "
     "port 1 and leaf1 port 2; then n1 mlx5_0 port 1 leads to leaf1 port 1 and n2 mlx5_0 port 1 to "
     "leaf1 port 2.\n",
     4, 2, 0, 0},
    {"three", rotate_three, NULL, 3, 3, 0, 0},
    {"wrong port", wrong_port,
     "cable-wrong-port leaf1 port 4: Cable in the wrong port: move the plug in leaf1 port 4 to "
     "leaf1 "
     "port 1 (the cable's other end stays in n1 mlx5_0 port 1).\n",
     5, 1, 0, 0},
    {"wrong port and missing", wrong_port_and_missing, NULL, 4, 1, 1, 0},
    {"missing", missing,
     "cable-missing leaf2 port 3 <-> spine1 port 2: No link between leaf2 port 3 (Polling) and "
     "spine1 "
     "port 2 (Polling): plug the cable in at both ends; if it is in, swap it.\n",
     5, 0, 1, 0},
    {"extra", extra,
     "cable-extra leaf1 port 4 <-> leaf2 port 4: leaf1 port 4 <-> leaf2 port 4 is not in the plan: "
     "unplug it, or add it to the plan.\n",
     6, 0, 0, 1},
    {"narrow", narrow,
     "cable-narrow leaf1 port 3 <-> spine1 port 1: leaf1 port 3 <-> spine1 port 1 runs 1x, the "
     "plan "
     "says 4x: reseat the cable at both ends, then swap it.\n",
     6, 0, 0, 0},
    {"slow", slow,
     "cable-slow n4 mlx5_0 port 1 <-> leaf2 port 2: n4 mlx5_0 port 1 <-> leaf2 port 2 runs at EDR, "
     "the plan says HDR: see that the cable is made for HDR and that neither end has its speed "
     "forced down.\n",
     6, 0, 0, 0},
};

/* Carry the moves out, in order; plugs that change places are lifted first. */
static void carry_out(struct subnet *s, const json_t *findings)
{
    size_t i, k;
    json_t *f, *m;
    struct {
        int to_node, stays_node;
        unsigned to_port, stays_port;
    } plugs[8];
    size_t count = 0;
    json_array_foreach(findings, i, f) json_array_foreach(json_object_get(f, "moves"), k, m)
    {
        const char *texts[] = {jsonx_str_or(m, "to", ""), jsonx_str_or(m, "other_end", "")};
        int nodes[2];
        unsigned ports[2];
        for (int e = 0; e < 2; e++) {
            bool ambiguous;
            const char *port = strstr(texts[e], " port ");
            assert_non_null(port);
            AUTO(free_str) char *name = str_printf("%.*s", (int)(port - texts[e]), texts[e]);
            nodes[e] = subnet_find(s, name, &ambiguous);
            assert_true(nodes[e] >= 0);
            ports[e] = (unsigned)strtoul(port + 6, NULL, 10);
        }
        assert_true(count < ARRAY_LEN(plugs));
        plugs[count].to_node = nodes[0];
        plugs[count].to_port = ports[0];
        plugs[count].stays_node = nodes[1];
        plugs[count++].stays_port = ports[1];
        net_down(s, nodes[1], ports[1]);
    }
    for (i = 0; i < count; i++)
        net_up(s, plugs[i].stays_node, plugs[i].stays_port, plugs[i].to_node, plugs[i].to_port);
}

static void each_fault_is_said_and_its_moves_put_it_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const struct fault *f = &faults[i];
        struct subnet s;
        struct cable_plan plan = {0};
        struct cables_result r;
        struct err err = {0};
        json_auto_t *findings = json_array(), *after = json_array();
        net_make(&s);
        f->plant(&s);
        plan_make(&plan, whole);
        assert_int_equal(cables_compare(&plan, &s, findings, &r, &err), 0);
        AUTO(free_str) char *text = findings_text(findings);
        if (f->text)
            assert_string_equal(text, f->text);
        assert_int_equal(r.planned, 6);
        assert_int_equal(r.in_place, f->in_place);
        assert_int_equal(r.moves, f->moves);
        assert_int_equal(r.to_plug, f->to_plug);
        assert_int_equal(r.to_remove, f->to_remove);
        carry_out(&s, findings);
        assert_int_equal(cables_compare(&plan, &s, after, &r, &err), 0);
        assert_int_equal(r.in_place, 6 - f->to_plug);
        assert_int_equal(r.moves, 0);
        cable_plan_release(&plan);
        subnet_release(&s);
    }
}

static void a_node_that_is_not_there_is_one_finding(void **state)
{
    (void)state;
    struct subnet s;
    struct cable_plan plan = {0};
    struct cables_result r;
    struct err err = {0};
    json_auto_t *findings = json_array();
    net_make(&s);
    plan_make(&plan, "hosts=n[1-4] hcas=mlx5_0 leaves=leaf[1-2] spines=spine[1-2]");
    assert_int_equal(cables_compare(&plan, &s, findings, &r, &err), 0);
    AUTO(free_str) char *text = findings_text(findings);
    assert_string_equal(text, "node-missing spine2: spine2 is not in the subnet: none of its 2 "
                              "planned links is up, the first leads to leaf1 port 4 (Polling): see "
                              "that it has power.\n");
    s.nodes[LEAF1].ports[4].phys = SUBNET_PHYS_LINK_UP;
    json_array_clear(findings);
    assert_int_equal(cables_compare(&plan, &s, findings, &r, &err), 0);
    assert_string_equal(jsonx_str_or(json_array_get(findings, 0), "cause", ""), "node-silent");
    assert_int_equal(json_array_size(findings), 1);
    cable_plan_release(&plan);
    subnet_release(&s);
}

static void plans_that_do_not_fit_the_subnet(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"leaf1,9,spine1,1\n", "plan.csv:1: leaf1 has 4 ports, not 9"},
        {"n1,1,leaf1,1\nn1 mlx5_0,1,leaf1,2\n",
         "plan.csv:2: two names of the plan mean one port: that of this cable"},
        {"twin,1,leaf1,1\n",
         "plan.csv: 'twin' means several nodes of the subnet; write its GUID (0x...) instead"},
    };
    struct subnet s;
    net_make(&s);
    subnet_add(&s, SUBNET_CA, 0x200, "twin", 1);
    subnet_add(&s, SUBNET_CA, 0x201, "twin", 1);
    subnet_name(&s);
    assert_string_equal(s.nodes[NET_NODES].name, "H-0000000000000200");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cable_plan plan = {0};
        struct cables_result r;
        struct err err = {0};
        json_auto_t *findings = json_array();
        assert_int_equal(
            cable_plan_parse(cases[i].text, strlen(cases[i].text), "plan.csv", &plan, &err), 0);
        assert_int_equal(cables_compare(&plan, &s, findings, &r, &err), -1);
        assert_string_equal(err.text, cases[i].error);
        assert_int_equal(json_array_size(findings), 0);
        cable_plan_release(&plan);
    }
    subnet_release(&s);
}

static void plans_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
        size_t cables;
    } cases[] = {
        {"node,port,node,port\n# comment\n\nleaf1, 3 ,\"spine 1\",1,4xHDR\r\n", NULL, 1},
        {"a,1,b,1\nc,1,d,1", NULL, 2},
        {"", "p: holds no cable", 0},
        {"a,1,b\n", "p:1: a cable is NODE,PORT,NODE,PORT[,RATE]; field 4 is missing", 0},
        {"a,1,b,0\n", "p:1: port: '0' is out of range (1 to 254)", 0},
        {"a,1,b,1,4xABC\n", "p:1: '4xABC' is not a rate such as 4xHDR", 0},
        {"a,1,b,1,,\n", "p:1: more than five fields", 0},
        {"a,1,b,1\nc,1,a,1\n", "p:2: a port 1 has a cable already, in line 1", 0},
        {"Switch\t8 \"S-1\"\t# \"leaf1\" enhanced\n[3]\t\"S-2\"[1](2)\t# \"spine1\" lid 1 4xHDR\n\n"
         "Switch\t8 \"S-2\"\t# \"spine1\"\n[1]\t\"S-1\"[3]\t# \"leaf1\" lid 2 4xHDR\n",
         NULL, 1},
        {"Ca\t1 \"H-1\"\t# \"n1\"\n[0](a)\t\"S-1\"[1]\t# lid 0 4xHDR\n",
         "p:2: a link is [PORT] "
         "\"NODE\"[PORT] with ports of "
         "1 to 254",
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cable_plan plan = {0};
        struct err err = {0};
        int status = cable_plan_parse(cases[i].text, strlen(cases[i].text), "p", &plan, &err);
        if (!cases[i].error && status != 0)
            fail_msg("%s", err.text);
        if (cases[i].error)
            assert_string_equal(err.text, cases[i].error);
        assert_int_equal(plan.count, cases[i].cables);
        cable_plan_release(&plan);
    }
}

static void trees_are_generated(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
        size_t cables;
    } cases[] = {
        {"hosts=n[1-8] leaves=l[1-4] spines=s[1-2] trunk=2", NULL, 8 + 16},
        {"hosts=n[1-8] hcas=mlx5_[0-3] leaves=l[1-8] spines=s[1-2]", NULL, 32 + 16},
        {"hosts=n[1-16] leaves=p[1-4]l[1-2] aggregation=p[1-4]a[1-2] spines=c[1-4] pods=4", NULL,
         16 + 16 + 16},
        {"hosts=n1 leaves=l1", "fat tree: spines=HOSTLIST is missing", 0},
        {"hosts=n[1-3] leaves=l[1-2] spines=s1",
         "fat tree: 3 hosts do not fill 2 groups of leaves evenly", 0},
        {"hosts=n1 leavs=l1 spines=s1",
         "fat tree: unknown key 'leavs', did you mean 'leaves'?; there are hosts, hcas, leaves, "
         "aggregation, spines, trunk, pods and rate",
         0},
        {"hosts=n1 leaves=l1 spines=s1 trunk=0", NULL, 0},
        {"hosts=n1 leaves=l[1-9999] spines=s[1-9999]", "fat tree: more than 1048576 cables", 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct cable_plan plan = {0};
        struct err err = {0};
        int status = cable_plan_generate(cases[i].text, &plan, &err);
        if (cases[i].cables && status != 0)
            fail_msg("%s: %s", cases[i].text, err.text);
        if (cases[i].error)
            assert_string_equal(err.text, cases[i].error);
        assert_int_equal(plan.count, cases[i].cables);
        assert_int_equal(status == 0, cases[i].cables > 0);
        cable_plan_release(&plan);
    }
}

static void rails_lead_to_their_own_leaf(void **state)
{
    (void)state;
    struct cable_plan plan = {0};
    plan_make(&plan, "hosts=n[1-4] hcas=mlx5_[0-1] leaves=l[1-4] spines=s1");
    /* Host 3 is the first of the second group: its rail 1 is in leaf 4, port 1. */
    const struct cable *c = &plan.cables[2 * 2 + 1];
    assert_string_equal(c->a.node, "n3 mlx5_1");
    assert_string_equal(c->b.node, "l4");
    assert_int_equal(c->b.port, 1);
    cable_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_said_and_its_moves_put_it_right),
        cmocka_unit_test(a_node_that_is_not_there_is_one_finding),
        cmocka_unit_test(plans_that_do_not_fit_the_subnet),
        cmocka_unit_test(plans_are_read_strictly),
        cmocka_unit_test(trees_are_generated),
        cmocka_unit_test(rails_lead_to_their_own_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
