# shellcheck shell=bash
# Helpers of the end-to-end tests: a farm of nodes, muster in its hub, assertions that say what was
# expected.  A test is a bash script that begins with:
#
#     . "$(dirname "$0")/lib.sh"
#     farm_up 4
#
# and may then use
#     $work   a directory of its own, removed at the end      $farm   the farm's DIR
#     $bin    where the programs are                          $MUSTER_STATE  muster's state directory
#     hub CMD...          run CMD where every node is reached by name (env and cwd are kept)
#     node NODE CMD...    run CMD as root inside a node
#     muster ARGS...      the controller, in the hub
#     nodes_sh TEXT       run shell text over ssh on every node, output as "NODE: LINE"
#     site_write [YAML]   $work/site.yaml for the farm; YAML replaces the part after `ssh:`
# Everything ends with the test, also when it is killed: the farm is tied to this shell.
# Exit status: 0 passed, 1 failed, 77 cannot run here (the reason is on stderr).
set -u -o pipefail

: "${MUSTER_BIN:?set it to the directory of the built programs, as ctest does}"
bin=$MUSTER_BIN
test_name=$(basename "$0" .sh)
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-e2e-$test_name.XXXXXX") || exit 1
farm=$work/farm
export MUSTER_STATE=$work/state
checks=0

skip() {
    echo "skipped: $*" >&2
    exit 77
}

fail() {
    echo "FAILED $test_name (line ${BASH_LINENO[-2]:-?}): $*" >&2
    exit 1
}

note() {
    echo "-- $*"
}

# shellcheck disable=SC2317  # called by the trap
lib_cleanup() {
    local status=$?
    trap - EXIT
    if [ -e "$farm/hub" ] && ! "$bin/lab-farm" down --dir "$farm"; then
        echo "FAILED $test_name: the farm did not end" >&2
        status=1
    fi
    if [ -n "${KEEP:-}" ] && [ "$status" -ne 0 ]; then
        echo "kept for a look: $work" >&2
    else
        rm -rf "$work"
    fi
    [ "$status" -eq 0 ] && echo "$test_name: $checks checks passed"
    exit "$status"
}
trap lib_cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# ---- the farm ----

# farm_up N [options of lab-farm up].  A machine that does not permit a farm skips the test.
farm_up() {
    local status=0
    "$bin/lab-farm" up "$@" --dir "$farm" --tie $$ || status=$?
    [ "$status" -eq 0 ] && return 0
    [ "$status" -eq 77 ] && exit 77
    fail "lab-farm up $* ended with $status"
}

farm_down() {
    "$bin/lab-farm" down --dir "$farm" || fail "lab-farm down ended with $?"
}

hub() {
    "$bin/lab-farm" ctl --dir "$farm" -- "$@"
}

node() {
    local name=$1
    shift
    "$bin/lab-farm" in --dir "$farm" "$name" -- "$@"
}

muster() {
    hub "$bin/muster" "$@"
}

node_ssh() {
    local name=$1
    shift
    hub ssh -F "$farm/ssh_config" "$name" "$@"
}

nodes_sh() {
    local name
    while read -r name; do
        node_ssh "$name" "$1" </dev/null 2>&1 | sed "s/^/$name: /" || return 1
    done <"$farm/nodes"
}

# Puts a program into a node, as a package would.
node_install() {
    node "$1" sh -c "cat >'$3' && chmod 755 '$3'" <"$2" || fail "cannot install $2 in $1 as $3"
}

# The farm as a site: by default all nodes, no playbooks.
site_write() {
    local count
    count=$(wc -l <"$farm/nodes")
    {
        echo "cluster: lab"
        echo "ssh: { user: root, config: $farm/ssh_config }"
        if [ $# -gt 0 ]; then
            printf '%s\n' "$1"
        else
            echo "fabric: { kind: ethernet, interface: eth0 }"
            echo "nodes:"
            printf '  - { names: "gpu[001-%03d]", playbooks: [] }\n' "$count"
        fi
    } >"$work/site.yaml"
}

# ---- assertions ----

# expect_status WANT CMD...: output goes to $work/out and $work/err.
expect_status() {
    local want=$1 got=0
    shift
    "$@" >"$work/out" 2>"$work/err" || got=$?
    checks=$((checks + 1))
    [ "$got" -eq "$want" ] && return 0
    echo "--- stdout of: $*" >&2
    tail -n 40 "$work/out" >&2
    echo "--- stderr" >&2
    tail -n 40 "$work/err" >&2
    fail "'$*' ended with $got; expected $want"
}

# expect_equal WHAT WANT GOT
expect_equal() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1 is '$3'; expected '$2'"
}

expect_different() {
    checks=$((checks + 1))
    [ "$2" != "$3" ] || fail "$1: both are '$2'; expected two different values"
}

# expect_contains FILE TEXT (fixed text)
expect_contains() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" && return 0
    echo "--- $1" >&2
    tail -n 40 "$1" >&2
    fail "$1 does not hold '$2'"
}

expect_lacks() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" || return 0
    fail "$1 holds '$2'; it must not: $(grep -F -m 1 -- "$2" "$1")"
}

expect_file() {
    checks=$((checks + 1))
    [ -f "$1" ] || fail "file $1 is missing"
}

expect_no_path() {
    checks=$((checks + 1))
    if [ -e "$1" ] || [ -L "$1" ]; then
        fail "$1 exists; it must not"
    fi
}

# wait_until SECONDS CMD...: polls; for what must become true, never for how fast.
wait_until() {
    local tries=$(($1 * 20))
    shift
    while [ "$tries" -gt 0 ]; do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
        tries=$((tries - 1))
    done
    return 1
}
