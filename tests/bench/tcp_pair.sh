#!/bin/bash
# Goodput of a pair, muster against iperf3, between two network namespaces of this machine.
#
#   tests/bench/tcp_pair.sh BUILD-DIR [ROUNDS] [STREAMS] [SECONDS]
#
# Needs root, ip netns and iperf3.  The two run in turn, ROUNDS times in each direction; printed are the
# medians with the least and the largest value.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source "$here/netns.sh"
build=${1:?build directory} rounds=${2:-5} streams=${3:-4} seconds=${4:-3} prefix=mbtp$$
command -v iperf3 >/dev/null || { echo "iperf3 is missing: apt install iperf3" >&2; exit 77; }
work=$(mktemp -d)
trap 'netns_down $prefix 2; rm -rf "$work"' EXIT
gcc -O2 -std=c17 -D_GNU_SOURCE -I"$here/../.." -o "$work/pair" "$here/tcp_pair_bench.c" \
    "$build/libmuster_fabric.a" "$build/libmuster_common.a" -ljansson -lcrypto -lpthread -lm
netns_up $prefix 2

# iperf3 from $1 to $2: what the server received, without the first second.
run_iperf() {
    ip netns exec $prefix$2 iperf3 -s -1 -B 10.99.$2.2 >/dev/null &
    local server=$!
    until ip netns exec $prefix$2 ss -Hltn "sport = :5201" | grep -q .; do sleep 0.05; done
    ip netns exec $prefix$1 iperf3 -c 10.99.$2.2 -P "$streams" -t "$seconds" -i 0 -O 1 -J >"$work/iperf.json"
    wait $server
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"]/1e9)' \
        "$work/iperf.json" >>"$work/iperf.$1$2"
}

run_pair() {
    local dir=$work/meet.$1
    mkdir "$dir"
    ip netns exec ${prefix}0 "$work/pair" first a b 10.99.0.2 "$dir" "$streams" $((seconds * 1000)) 1 >>"$work/pair.10" &
    local first=$!
    ip netns exec ${prefix}1 "$work/pair" second b a 10.99.1.2 "$dir" "$streams" $((seconds * 1000)) 1 >>"$work/pair.01"
    wait $first
}

for ((r = 0; r < rounds; r++)); do
    run_iperf 0 1
    run_pair $r
    run_iperf 1 0
done
python3 - "$work" "$streams" <<'END'
import statistics, sys
work, streams = sys.argv[1], sys.argv[2]
rows = lambda name: [[float(x) for x in l.split()] for l in open(f"{work}/{name}")]
text = lambda v: f"{statistics.median(v):7.2f} ({min(v):.2f}-{max(v):.2f})"
print(f"{streams} streams, Gbit/s   iperf3                  muster                  ratio")
for d in ("01", "10"):
    i, m = [r[0] for r in rows("iperf." + d)], [r[0] for r in rows("pair." + d)]
    print(f"{d[0]}>{d[1]}                 {text(i):24s}{text(m):24s}{statistics.median(m)/statistics.median(i):.3f}")
print("half round trip, us", text([r[1] for r in rows("pair.10")]))
END
