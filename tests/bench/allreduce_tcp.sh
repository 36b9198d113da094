#!/bin/bash
# AllReduce over TCP, muster's engine against Open MPI, 4 ranks in 4 network namespaces of this machine.
#
#   tests/bench/allreduce_tcp.sh BUILD-DIR [ROUNDS] [STREAMS]
#
# Open MPI is told that the cores are shared (mpi_yield_when_idle), or its spinning would make it slow
# for no reason of its own.  RANKS=2 gives each rank a core on a small machine, SIZES="..." picks sizes in bytes.
# Needs root, ip netns, openmpi-bin and libopenmpi-dev.  The two run in turn, ROUNDS times; printed are for
# each size the median over the rounds of the medians, with the least and the largest of them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source "$here/netns.sh"
build=${1:?build directory} rounds=${2:-3} streams=${3:-1} ranks=${RANKS:-4} prefix=mbar$$
sizes=${SIZES:-"4096 65536 262144 1048576 4194304 16777216 67108864"}
command -v mpicc >/dev/null || { echo "mpicc is missing: apt install openmpi-bin libopenmpi-dev" >&2; exit 77; }
work=$(mktemp -d)
trap 'netns_down $prefix $ranks; rm -rf "$work"' EXIT

mpicc -O2 -DBENCH_MPI -o "$work/mpi" "$here/allreduce_bench.c"
gcc -O2 -std=c17 -D_GNU_SOURCE -I"$here/../.." -o "$work/tcp" "$here/allreduce_bench.c" \
    "$build/libmuster_fabric.a" "$build/libmuster_common.a" -ljansson -lcrypto -lm
netns_up $prefix $ranks

# mpirun "logs in" to each node by this: the namespace of the address, and a host name of its own.
cat >"$work/agent" <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
i=\${1#10.99.}; i=\${i%.2}; shift
exec ip netns exec $prefix\$i unshare --uts sh -c "hostname node\$i; \$*"
END
chmod +x "$work/agent"
for ((i = 0; i < ranks; i++)); do echo "10.99.$i.2 slots=1"; done >"$work/hosts"

run_mpi() {
    ip netns exec $prefix-hub mpirun --allow-run-as-root -np $ranks --hostfile "$work/hosts" \
        --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca pml ob1 --bind-to none \
        --mca btl_tcp_if_include 10.99.0.0/16 --mca oob_tcp_if_include 10.99.0.0/16 \
        --mca btl_tcp_links "$streams" --mca mpi_yield_when_idle 1 "$work/mpi" 200 $sizes
}

run_tcp() {
    local dir=$work/meet.$1 i pids=()
    mkdir "$dir"
    for ((i = 0; i < ranks; i++)); do
        ip netns exec $prefix$i "$work/tcp" $i $ranks 10.99.$i.2 "$dir" "$streams" "${ALGORITHM:-auto}" 200 $sizes &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i"; done
}

for ((r = 0; r < rounds; r++)); do
    run_mpi >"$work/mpi.$r"
    run_tcp "$r" >"$work/tcp.$r"
done
python3 - "$work" "$rounds" "$ranks" <<'END'
import statistics, sys
work, rounds, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def load(side):
    table = {}
    for r in range(rounds):
        for line in open(f"{work}/{side}.{r}"):
            f = line.split()
            table.setdefault(int(f[0]), []).append(float(f[2]))
    return table
mpi, tcp = load("mpi"), load("tcp")
print("bytes      Open MPI us (min-max)             muster us (min-max)               times faster   muster busbw GB/s")
for size in mpi:
    m, t = statistics.median(mpi[size]), statistics.median(tcp[size])
    print(f"{size:<10} {m:10.1f} ({min(mpi[size]):.1f}-{max(mpi[size]):.1f})".ljust(46) +
          f"{t:10.1f} ({min(tcp[size]):.1f}-{max(tcp[size]):.1f})".ljust(36) + f"{m / t:8.2f}" +
          f"{size * 2 * (ranks - 1) / ranks / t / 1e3:16.2f}")
END
