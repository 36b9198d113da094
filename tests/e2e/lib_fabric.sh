# shellcheck shell=bash
# Helpers for tests on a simulated InfiniBand subnet: ibsim is the subnet, opensm and muster-fabric
# attach to it through libumad2sim.  Source after lib.sh.
#
#     fabric_needs               skips where ibsim, opensm or muster-fabric is missing
#     net_write FILE [RATE ...]  8 hosts, 4 leaves, 2 spines, 2 cables between each
#     torus_write FILE           2 x 2 x 2 switches with a host each
#     sim_start FILE             one simulator; sim_stop ends it
#     sim_say 'COMMAND'          one line to its console, waits for the prompt
#     at HOST COMMAND...         runs a program attached to that host's port
#     sm_start TAG HOST CONF     opensm; its log is $sim/TAG.log; sm_stop TAG [SIGNAL]
#     wait_for SECONDS TEXT COMMAND...   until the command succeeds
# Every process is ended by its pid at the end, and by the kernel when this shell is killed.
sim=
sim_name=muster-e2e-$$
umad2sim=
started=()

fabric_needs() {
    local tool
    [ -x "$bin/muster-fabric" ] || skip "muster-fabric is not built here (libibnetdisc-dev is missing)"
    for tool in ibsim opensm sminfo smpquery perfquery; do
        [ -n "$(PATH=$PATH:/usr/sbin:/sbin command -v "$tool")" ] ||
            skip "$tool is missing (ibsim-utils, opensm, infiniband-diags)"
    done
    PATH=$PATH:/usr/sbin:/sbin
    for tool in /usr/lib/*/umad2sim/libumad2sim.so /usr/lib64/umad2sim/libumad2sim.so; do
        [ -e "$tool" ] && umad2sim=$tool
    done
    [ -n "$umad2sim" ] || skip "libumad2sim.so is missing (ibsim-utils)"
    preload=$umad2sim
    if [ "$(readelf -sW "$bin/muster-fabric" | grep -c __asan_init)" -gt 0 ]; then
        # The library of the simulator reads past its buffer; libibnetdisc leaks.
        preload="$(gcc -print-file-name=libasan.so):$umad2sim"
        printf 'interceptor_via_lib:libumad2sim.so\n' >"$work/asan.supp"
        printf 'leak:libibnetdisc.so\nleak:libumad2sim.so\n' >"$work/lsan.supp"
        export ASAN_OPTIONS="suppressions=$work/asan.supp" LSAN_OPTIONS="suppressions=$work/lsan.supp"
    fi
}

# ---- processes ----

# start OUT COMMAND...: output to OUT and OUT.err, in the background, ended with this shell; the pid is in $!.
start() {
    local out=$1
    shift
    # An explicit input, else the shell gives a background command none.
    setpriv --pdeathsig KILL "$@" <&0 >"$out" 2>"$out.err" &
    started+=($!)
}

end_pid() {
    local pid=$1 signal=${2:-TERM} i
    kill "-$signal" "$pid" 2>/dev/null || return 0
    for i in $(seq 60); do
        kill -0 "$pid" 2>/dev/null || break
        [ "$i" -eq 40 ] && kill -KILL "$pid" 2>/dev/null
        sleep 0.05
    done
    wait "$pid" 2>/dev/null
    return 0
}

# shellcheck disable=SC2317  # called by the trap
fabric_cleanup() {
    local status=$? i
    trap '' HUP INT TERM
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do
        end_pid "${started[i]}"
    done
    (exit "$status")
    lib_cleanup
}
trap fabric_cleanup EXIT

wait_for() {
    local seconds=$1 text=$2 end
    shift 2
    end=$((SECONDS + seconds))
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "$text: not within $seconds s"
        sleep 0.05
    done
}

# ---- the subnet ----

# net_print: "node NAME|ID|PORTS" and "cable NODE:PORT|NODE:PORT|RATE" lines as ibsim's netlist.  A rate
# is written at both ends: a port goes up with the better of what its two ends say.
net_print() {
    perl -ne '
        chomp;
        if (/^node (.*)\|(.*)\|(.*)/) { $id{$1} = $2; push @nodes, [$1, $2, $3]; }
        if (/^cable (.*)\|(.*)\|(.*)/) { ($peer{$1}, $peer{$2}) = ($2, $1); $rate{$1} = $rate{$2} = $3; }
        END { for my $n (@nodes) {
            my ($name, $id, $ports) = @$n;
            my ($guid, $ca) = ("0x" . substr($id, 2), $id =~ /^H/);
            print "vendid=0x2c9\ndevid=", $ca ? "0x1021" : "0xd2f2", "\nsysimgguid=$guid\n";
            print $ca ? "caguid=$guid\nCa\t$ports \"$id\"\t\t# \"$name\"\n"
                      : "switchguid=$guid\nSwitch\t$ports \"$id\"\t\t# \"$name\" enhanced port 0 lid 0 lmc 0\n";
            for my $p (1 .. $ports) {
                my ($far, $q) = ($peer{"$name:$p"} // next) =~ /^(.*):(\d+)$/;
                printf "[%d]\t\"%s\"[%d]\t\t# %s\"%s\" lid 0 %s\n", $p, $id{$far}, $q,
                    $ca ? "lid 0 lmc 0 " : "", $far, $rate{"$name:$p"};
            }
            print "\n";
        } }'
}

# net_write FILE [NODE:PORT=RATE]...: a fat tree; a rate other than 4xHDR for the cable at that port.
net_write() {
    local file=$1 i s k rate
    local -A rates=()
    shift
    for rate in "$@"; do
        rates[${rate%=*}]=${rate##*=}
    done
    {
        for i in {0..7}; do
            printf 'node node%04d mlx5_0|H-b8599f03001000%x0|1\n' $((i + 1)) "$i"
            rate=$(printf 'node%04d mlx5_0:1' $((i + 1)))
            printf 'cable %s|leaf%03d:%d|%s\n' "$rate" $((i / 2 + 1)) $((i % 2 + 1)) "${rates[$rate]:-4xHDR}"
        done
        for i in {0..3}; do
            printf 'node leaf%03d|S-b8599f0300a000%x0|8\n' $((i + 1)) "$i"
            for s in 0 1; do
                for k in 1 2; do
                    rate=$(printf 'leaf%03d:%d' $((i + 1)) $((2 + 2 * s + k)))
                    printf 'cable %s|spine%03d:%d|%s\n' "$rate" $((s + 1)) $((2 * i + k)) "${rates[$rate]:-4xHDR}"
                done
            done
        done
        printf 'node spine001|S-b8599f0300a00100|8\nnode spine002|S-b8599f0300a00110|8\n'
    } | net_print >"$file"
}

# torus_write FILE: 2 x 2 x 2 switches swXYZ (ports 1 and 2: the two ways in x, then y and z), one host
# each at port 7.  The last hex digit but one of a GUID is X*4 + Y*2 + Z.
torus_write() {
    local n d far
    {
        for n in {0..7}; do
            printf 'node node%04d mlx5_0|H-b8599f03001000%x0|1\n' $((n + 1)) "$n"
            printf 'node sw%d%d%d|S-b8599f0300a000%x0|8\n' $((n / 4)) $((n / 2 % 2)) $((n % 2)) "$n"
            printf 'cable node%04d mlx5_0:1|sw%d%d%d:7|4xHDR\n' $((n + 1)) $((n / 4)) $((n / 2 % 2)) $((n % 2))
            for d in 0 1 2; do
                far=$((n ^ (4 >> d)))
                printf 'cable sw%d%d%d:%d|sw%d%d%d:%d|4xHDR\n' $((n / 4)) $((n / 2 % 2)) $((n % 2)) $((2 * d + 1)) \
                    $((far / 4)) $((far / 2 % 2)) $((far % 2)) $((2 * d + 2))
            done
        done
    } | net_print >"$1"
}

sim_start() {
    local pid
    sim=$(mktemp -d "$work/sim.XXXXXX")
    mkfifo "$sim/console"
    # Open at both ends in this shell: the simulator never sees an end of its console.
    exec {console}<>"$sim/console"
    IBSIM_SOCKNAME=$sim_name start "$sim/out" ibsim -s "$1" <&"$console"
    pid=$!
    wait_for 10 "ibsim starts" grep -qs 'Network simulator ready' "$sim/out"
    sim_pid=$pid
}

sim_stop() {
    end_pid "$sim_pid"
    exec {console}>&-
}

sim_answered() {
    tail -c "+$((sim_before + 1))" "$sim/out" | grep -q 'sim> $'
}

sim_say() {
    sim_before=$(stat -c %s "$sim/out")
    printf '%s\n' "$1" >&"$console"
    wait_for 5 "ibsim answers '$1'" sim_answered
}

# Each program makes files of the simulated /sys where it runs.
at() {
    local host=$1
    shift
    (cd "$sim" && IBSIM_SOCKNAME=$sim_name SIM_HOST=$host LD_PRELOAD=$preload \
        timeout -k 1 30 "$@" 2>"$sim/stderr")
}

declare -A sm_pid
sm_start() {
    local tag=$1 host=$2 conf=$3
    mkdir -p "$sim/$tag"
    IBSIM_SOCKNAME=$sim_name SIM_HOST=$host OSM_CACHE_DIR=$sim/$tag OSM_TMP_DIR=$sim/$tag \
        start "$sim/$tag.out" env -C "$sim/$tag" LD_PRELOAD="$umad2sim" \
        opensm -F "$conf" -f "$sim/$tag.log" -e --dump_files_dir "$sim/$tag"
    sm_pid[$tag]=$!
}

sm_stop() {
    end_pid "${sm_pid[$1]}" "${2:-TERM}"
}
