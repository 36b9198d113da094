#!/bin/bash
# One command on many nodes: `muster exec -- true` beside pdsh, clush and pssh, on the node farm (real
# sshd processes in namespaces of this machine, whose own work is part of the wall time).
#
#   tests/bench/ssh.sh BUILD-DIR [ROUNDS] [NODES...]        default 5 rounds on 64 and 256 nodes
#
# "stock" is OpenSSH as it comes (post-quantum key exchange where it has one); "curve" restricts every
# tool to curve25519-sha256, which is what muster's library speaks.  CPU and memory are those of the
# tool with all its children, the nodes' excluded.  The tools run in turn within each round; printed
# is the median of each column, memory from a run of its own.  A tool that fails on any node is
# reported, not counted.  Needs root, pdsh, clustershell, pssh; muster and lab-farm in BUILD-DIR/bin.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?build directory}" && pwd) rounds=${2:-5}
shift $(($# > 1 ? 2 : 1))
sizes=("${@:-64}")
(($# > 0)) || sizes=(64 256)
for tool in pdsh clush parallel-ssh; do
    command -v $tool >/dev/null || { echo "skipped: $tool is missing: apt-get install pdsh clustershell pssh"; exit 77; }
done
work=$(mktemp -d /tmp/muster-bench-XXXXXX)
farm=("$build/bin/lab-farm")
trap '"${farm[@]}" down --dir "$work/farm" >/dev/null 2>&1; rm -rf "$work"' EXIT
gcc -O2 -D_GNU_SOURCE -o "$work/usage" "$here/usage.c"

set_up() {
    "${farm[@]}" up "$1" --dir "$work/farm" >/dev/null
    cp "$work/farm/ssh_config" "$work/stock"
    { cat "$work/farm/ssh_config"; echo "    KexAlgorithms curve25519-sha256"; } >"$work/curve"
    list=$(paste -sd, "$work/farm/nodes")
    { echo "cluster: bench"; echo "ssh: { user: root, become: none, parallel: $1 }"; echo "nodes:"
      sed 's/.*/  - { names: "&" }/' "$work/farm/nodes"; } >"$work/site.yaml"
}

# The command line of a tool, one word a line.
command_of() {
    local tool=$1 n=$2 config=$3
    case $tool in
    muster) printf '%s\n' "$build/bin/muster" exec -q -s "$work/site.yaml" --state "$work/state" -F "$config" -- true;;
    pdsh) printf '%s\n' env "PDSH_SSH_ARGS_APPEND=-F $config" pdsh -S -R ssh -f "$n" -w "$list" true;;
    clush) printf '%s\n' clush -S -q -f "$n" -o "-F $config" -w "$list" true;;
    pssh) printf '%s\n' parallel-ssh -p "$n" -h "$work/farm/nodes" -x "-F $config" true;;
    esac
}

measure() { # TOOL N COLUMN [-m]
    local words
    mapfile -t words < <(command_of "$1" "$2" "$work/$3")
    "${farm[@]}" ctl --dir "$work/farm" "$work/usage" ${4:-} "${words[@]}" 3>&1
}

median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

printf '%-6s %-7s %-6s %9s %9s %10s\n' nodes tool kex "wall s" "CPU s" "memory MB"
for n in "${sizes[@]}"; do
    set_up "$n"
    runs=(muster:curve pdsh:stock pdsh:curve clush:stock clush:curve pssh:stock pssh:curve)
    rm -f "$work"/r.*
    measure muster "$n" curve >/dev/null # the nodes' first login is slower for whoever comes first
    for ((round = 0; round < rounds; round++)); do
        for run in "${runs[@]}"; do
            measure "${run%:*}" "$n" "${run#*:}" >>"$work/r.$run"
        done
    done
    for run in "${runs[@]}"; do
        bad=$(awk '$4 != 0' "$work/r.$run" | wc -l)
        if ((bad > 0)); then
            printf '%-6s %-7s %-6s failed in %d of %d rounds\n' "$n" "${run%:*}" "${run#*:}" "$bad" "$rounds"
            continue
        fi
        memory=$(measure "${run%:*}" "$n" "${run#*:}" -m | cut -d' ' -f3)
        printf '%-6s %-7s %-6s %9.3f %9.3f %10.1f\n' "$n" "${run%:*}" "${run#*:}" \
            "$(cut -d' ' -f1 "$work/r.$run" | median)" "$(cut -d' ' -f2 "$work/r.$run" | median)" \
            "$(awk "BEGIN {print $memory / 1024}")"
    done
    "${farm[@]}" down --dir "$work/farm" >/dev/null
done
