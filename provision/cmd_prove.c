/* muster prove: how good the search for a faulty part is, on simulated fabrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/jsonx.h"
#include "common/log.h"
#include "common/tty.h"
#include "common/util.h"
#include "provision/cmd.h"
#include "validate/isolate/fabric_build.h"
#include "validate/isolate/prove.h"

struct settings {
    int64_t hosts, rails, trials, seed, tests, repeats;
    const char *topology, *fault;
    bool json, markdown, list, other_tables;
};

static const struct opt_row rows[] = {
    {OPT_INT, "hosts", 'n', "N", "hosts of the fabric, 2 to 65536 (232)",
     offsetof(struct settings, hosts), 2, 65536},
    {OPT_INT, "rails", 'r', "N", "GPUs with an adapter each per host, 1 to 16 (8; torus: 1)",
     offsetof(struct settings, rails), 1, 16},
    {OPT_STRING, "topology", 't', "NAME", "fat-tree or torus (fat-tree)",
     offsetof(struct settings, topology), 0, 0},
    {OPT_INT, "trials", 0, "N", "trials per kind of fault and of healthy fabrics (20)",
     offsetof(struct settings, trials), 1, 1000000},
    {OPT_INT, "seed", 0, "N", "same seed, same trials (1)", offsetof(struct settings, seed), 0, 0},
    {OPT_STRING, "fault", 'f', "NAME", "only this kind of fault, or healthy",
     offsetof(struct settings, fault), 0, 0},
    {OPT_INT, "tests", 0, "N", "most rounds and repeats per trial (60)",
     offsetof(struct settings, tests), 1, 100000},
    {OPT_INT, "repeats", 0, "N", "repeats of what failed once and then passed (8)",
     offsetof(struct settings, repeats), 1, 10000},
    {OPT_FLAG, "other-tables", 0, NULL,
     "traffic takes other routes than the search assumes: what wrong forwarding tables cost",
     offsetof(struct settings, other_tables), 0, 0},
    {OPT_FLAG, "json", 0, NULL, "print JSON", offsetof(struct settings, json), 0, 0},
    {OPT_FLAG, "markdown", 0, NULL, "print a page for the documentation",
     offsetof(struct settings, markdown), 0, 0},
    {OPT_FLAG, "list", 0, NULL, "list the kinds of faults and end", offsetof(struct settings, list),
     0, 0},
    {OPT_END, NULL, 0, NULL, NULL, 0, 0, 0},
};

static void fill_defaults(struct settings *s)
{
    bool torus = s->topology && strcmp(s->topology, "torus") == 0;
    s->hosts = s->hosts ? s->hosts : 232;
    s->rails = s->rails ? s->rails : torus ? 1 : 8;
    s->trials = s->trials ? s->trials : 20;
    s->seed = s->seed ? s->seed : 1;
    s->tests = s->tests ? s->tests : (int64_t)next_usual.tests;
    s->repeats = s->repeats ? s->repeats : next_usual.repeats;
    s->topology = s->topology ? s->topology : "fat-tree";
}

/* Sides as near to each other as the number allows. */
static int build_torus(const struct settings *s, struct fabric_graph **out, struct err *err)
{
    size_t n = (size_t)s->hosts, x = 1, y = 1;
    if (s->rails != 1)
        return err_set(err, ERR_USAGE, "--rails %lld: a torus has one rail", (long long)s->rails);
    for (size_t i = 1; i * i * i <= n; i++)
        x = n % i == 0 ? i : x;
    for (size_t i = 1; i * i <= n / x; i++)
        y = n / x % i == 0 ? i : y;
    return fabric_build_torus(n / x / y, y, x, out, err);
}

static int build(const struct settings *s, struct fabric_graph **out, struct err *err)
{
    if (strcmp(s->topology, "torus") == 0)
        return build_torus(s, out, err);
    if (strcmp(s->topology, "fat-tree") != 0)
        return err_set(err, ERR_USAGE, "--topology %s: there are fat-tree and torus", s->topology);
    return fabric_build_fat_tree((size_t)s->hosts, (size_t)s->rails, 0, out, err);
}

static void list_faults(void)
{
    struct tty_table *table =
        tty_table_create((const char *const[]){"FAULT", "WHAT IS PLANTED", "HOW IT SHOWS"}, 3);
    for (size_t i = 0; i < faults_count(); i++)
        tty_table_row(
            table, TTY_PLAIN,
            (const char *const[]){faults_at(i)->id, faults_at(i)->planted, faults_at(i)->shows});
    tty_table_print(table, stdout);
    tty_table_destroy(table);
}

static void show_progress(void *ctx, const char *kind)
{
    (void)ctx;
    log_debug("%s", kind);
}

/* "96 % (80-99)" */
static char *rate_text(const json_t *row, const char *key)
{
    const json_t *rate = json_object_get(row, key);
    return str_printf("%.1f %% (%.1f-%.1f)", 100 * json_number_value(json_object_get(rate, "rate")),
                      100 * json_number_value(json_object_get(rate, "low")),
                      100 * json_number_value(json_object_get(rate, "high")));
}

enum { CELLS = 9 };
static const char *const headings[CELLS] = {"FAULT",      "TRIALS",   "DETECTED",
                                            "RIGHT PART", "TOO WIDE", "WRONG PART",
                                            "WRONG NODE", "TESTS",    "CPU"};

static void make_cells(const json_t *row, char *cells[CELLS])
{
    static const char *const rates[] = {"detected", "right", "wide", "wrong", "wrong_node"};
    int64_t trials = jsonx_int_or(row, "trials", 0);
    cells[0] = str_dup(jsonx_str_or(row, "kind", "?"));
    cells[1] = trials ? str_printf("%lld", (long long)trials) : str_dup("no such place");
    for (size_t i = 0; i < ARRAY_LEN(rates); i++)
        cells[2 + i] = trials ? rate_text(row, rates[i]) : str_dup("-");
    cells[7] = trials ? str_printf("%lld / %lld", (long long)jsonx_int_or(row, "tests_median", 0),
                                   (long long)jsonx_int_or(row, "tests_p95", 0))
                      : str_dup("-");
    cells[8] = trials
                   ? str_printf("%.0f ms",
                                1000 * json_number_value(json_object_get(row, "cpu_seconds_mean")))
                   : str_dup("-");
}

typedef void row_fn(void *ctx, char *cells[CELLS]);

static void each_row(const json_t *result, row_fn *fn, void *ctx)
{
    const json_t *healthy = json_object_get(result, "healthy");
    const json_t *kinds = json_object_get(result, "kinds");
    for (size_t i = healthy ? 0 : 1; i <= json_array_size(kinds); i++) {
        char *cells[CELLS];
        make_cells(i == 0 ? healthy : json_array_get(kinds, i - 1), cells);
        fn(ctx, cells);
        for (size_t k = 0; k < CELLS; k++)
            free(cells[k]);
    }
}

static void table_row(void *ctx, char *cells[CELLS])
{
    tty_table_row(ctx, TTY_PLAIN, (const char *const *)cells);
}

static void print_text(const json_t *result)
{
    const json_t *screen = json_object_get(result, "screen");
    struct tty_table *table = tty_table_create(headings, CELLS);
    printf("SIMULATED %s, seed %lld: no figure below was measured on hardware\n",
           jsonx_str_or(result, "fabric", "?"), (long long)jsonx_int_or(result, "seed", 0));
    printf("screen of %lld rounds exercises %lld of %lld directed edges; tests: median / 95th "
           "percentile; 95 %% intervals in brackets\n\n",
           (long long)jsonx_int_or(screen, "rounds", 0),
           (long long)jsonx_int_or(screen, "exercised", 0),
           (long long)jsonx_int_or(screen, "directed_edges", 0));
    each_row(result, table_row, table);
    tty_table_print(table, stdout);
    tty_table_destroy(table);
}

static void markdown_row(void *ctx, char *cells[CELLS])
{
    (void)ctx;
    printf("|");
    for (size_t i = 0; i < CELLS; i++)
        printf(" %s |", cells[i]);
    printf("\n");
}

static void print_conditions(const json_t *result)
{
    const json_t *screen = json_object_get(result, "screen");
    const json_t *c = json_object_get(result, "conditions");
    printf(
        "- Fabric: %s. The screen of %lld rounds fills %lld of %lld directed edges to at least "
        "90 %%; the others are not exercised by it (GPU memory alone is moved in the matchings, "
        "and tables by destination leave some uplinks of leaves that are not full unused). Switch "
        "cables are planted among the exercised ones.\n",
        jsonx_str_or(result, "fabric", "?"), (long long)jsonx_int_or(screen, "rounds", 0),
        (long long)jsonx_int_or(screen, "exercised", 0),
        (long long)jsonx_int_or(screen, "directed_edges", 0));
    if (!jsonx_bool_or(result, "tables_known", true))
        puts("- **The traffic takes other routes than the search assumes**: what forwarding tables "
             "that are wrong cost.");
    printf("- Conditions: a host straggles in %g of the moments and does not answer in %g; at most "
           "%lld tests per trial, %lld repeats of what failed once. Both chances are assumed.\n",
           json_number_value(json_object_get(c, "straggler")),
           json_number_value(json_object_get(c, "missing")),
           (long long)jsonx_int_or(c, "tests_limit", 0), (long long)jsonx_int_or(c, "repeats", 0));
}

static void print_legend(void)
{
    puts("- A test is one round in which all its measurements run at the same time, or one repeat "
         "of a round. The rounds inside the nodes count too. Median / 95th percentile.");
    puts(
        "- Right part: every planted part is convicted, and all that is named is planted or cannot "
        "be told from it by any measurement over this fabric. Too wide: more is named, or not all "
        "found. Wrong part: a conviction without a planted part. Wrong node: the same, inside a "
        "node. For `healthy`, detected is the false-alarm rate. Brackets: Wilson intervals, 95 %.");
    puts("- CPU: mean per trial of planning and solving, the simulator's own time left out.");
}

static void print_noise(void)
{
    puts("\nSpread of healthy measurements (validate/isolate/noise.def):\n");
    puts("| probe | source |\n|---|---|");
    for (int i = 0; i < MEASURE_PROBE__COUNT; i++)
        printf("| %s | %s |\n", measure_probe_row((enum measure_probe)i)->noun,
               sim_noise_source((enum measure_probe)i));
}

static void print_markdown(const struct settings *s, const json_t *result)
{
    printf("## %s\n\n", jsonx_str_or(result, "fabric", "?"));
    printf("**SIMULATED: no figure of this section was measured on hardware.** Made by `muster "
           "prove --hosts %lld --rails %lld --topology %s --trials %lld --seed %lld%s%s%s "
           "--markdown`.\n\n",
           (long long)s->hosts, (long long)s->rails, s->topology, (long long)s->trials,
           (long long)s->seed, s->fault ? " --fault " : "", s->fault ? s->fault : "",
           s->other_tables ? " --other-tables" : "");
    print_conditions(result);
    print_legend();
    printf("\n|");
    for (size_t i = 0; i < CELLS; i++)
        printf(" %s |", headings[i]);
    puts("\n|---|---|---|---|---|---|---|---|---|");
    each_row(result, markdown_row, NULL);
    print_noise();
    puts("");
}

static int run_prove(void *settings, int count, char **operands)
{
    struct settings *s = settings;
    struct err err = {0};
    json_auto_t *result = NULL;
    AUTO(fabric_graph_drop) struct fabric_graph *g = NULL, *real = NULL;
    (void)count;
    (void)operands;
    if (s->list) {
        list_faults();
        return 0;
    }
    fill_defaults(s);
    struct prove_settings p = {
        .trials = (size_t)s->trials,
        .seed = (uint64_t)s->seed,
        .only = s->fault,
        .limits = {.tests = (size_t)s->tests, .repeats = (unsigned)s->repeats},
        .conditions = sim_usual,
        .progress = show_progress};
    if (build(s, &g, &err) != 0 || (s->other_tables && build(s, &real, &err) != 0))
        return ctl_fail(&err);
    if (real)
        fabric_build_renumber(real, p.seed);
    p.real = real;
    if (prove_run(g, &p, &result, &err) != 0)
        return ctl_fail(&err);
    if (s->json)
        cmd_print_json(result);
    else if (s->markdown)
        print_markdown(s, result);
    else
        print_text(result);
    return 0;
}

static const char *const about[] = {
    "Plants faults from a catalogue into simulated fabrics, lets the search of muster validate "
    "find "
    "them through the same measuring interface, and prints how often it finds the right part, "
    "names "
    "a wrong one or raises a false alarm, and how many tests it takes.",
    "Every figure is of a simulated fabric: it says how good the search is under the stated noise, "
    "not how good a cluster is.",
    NULL};
static const struct opt_example examples[] = {
    {"muster prove --fault cable_1x --trials 200", "one kind of fault, tighter intervals"},
    {"muster prove --hosts 1024 --rails 1 --markdown", "a page for the documentation"},
    {"muster prove --list", "what can be planted"},
    {NULL, NULL},
};
const struct opt_command cmd_prove = {
    .name = "prove",
    .summary = "plant faults in simulated fabrics: how often is the right part found",
    .operands = "",
    .about = about,
    .rows = rows,
    .examples = examples,
    .settings_bytes = sizeof(struct settings),
    .run = run_prove,
};
