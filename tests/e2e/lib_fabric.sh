# shellcheck shell=bash
# Helpers for tests on a simulated InfiniBand subnet: ibsim is the subnet, opensm and muster-fabric
# attach to it through libumad2sim.  Source after lib.sh.
#
#     fabric_needs               skips where ibsim, opensm or muster-fabric is missing
#     net_write FILE [RATE ...]  8 hosts, 4 leaves, 2 spines, 2 cables between each; see below
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

# net_write FILE [NODE:PORT=RATE]...: the netlist; a rate other than 4xHDR for the cable at that port,
# written at both ends, since a port goes up with the better of what its two ends say.
net_write() {
    local file=$1
    shift
    perl -e '
        my %rate = map { /^(.*)=(.*)$/ ? ($1 => $2) : die "bad rate $_" } @ARGV;
        my (%id, %peer, @nodes);
        my $add = sub { my ($name, $id, $ports) = @_; $id{$name} = $id; push @nodes, [$name, $id, $ports]; };
        my $cable = sub { my ($a, $b) = @_; ($peer{$a}, $peer{$b}) = ($b, $a);
                          $rate{$a} //= $rate{$b} // "4xHDR"; $rate{$b} = $rate{$a}; };
        $add->(sprintf("node%04d mlx5_0", $_ + 1), sprintf("H-b8599f03001000%x0", $_), 1) for 0 .. 7;
        $add->(sprintf("leaf%03d", $_ + 1), sprintf("S-b8599f0300a000%x0", $_), 8) for 0 .. 3;
        $add->(sprintf("spine%03d", $_ + 1), sprintf("S-b8599f0300a001%x0", $_), 8) for 0 .. 1;
        for my $l (0 .. 3) {
            my $leaf = sprintf "leaf%03d", $l + 1;
            $cable->(sprintf("node%04d mlx5_0:1", 2 * $l + $_ + 1), "$leaf:" . ($_ + 1)) for 0 .. 1;
            for my $s (0 .. 1) {
                $cable->("$leaf:" . (3 + 2 * $s + $_), sprintf("spine%03d:%d", $s + 1, 2 * $l + $_ + 1)) for 0 .. 1;
            }
        }
        for my $n (@nodes) {
            my ($name, $id, $ports) = @$n;
            my $guid = "0x" . substr $id, 2;
            my $ca = $id =~ /^H/;
            print "vendid=0x2c9\ndevid=", $ca ? "0x1021" : "0xd2f2", "\nsysimgguid=$guid\n";
            print $ca ? "caguid=$guid\nCa\t$ports \"$id\"\t\t# \"$name\"\n"
                      : "switchguid=$guid\nSwitch\t$ports \"$id\"\t\t# \"$name\" enhanced port 0 lid 0 lmc 0\n";
            for my $p (1 .. $ports) {
                my $to = $peer{"$name:$p"} or next;
                my ($far, $q) = $to =~ /^(.*):(\d+)$/;
                printf "[%d]\t\"%s\"[%d]\t\t# %s\"%s\" lid 0 %s\n", $p, $id{$far}, $q,
                    $ca ? "lid 0 lmc 0 " : "", $far, $rate{"$name:$p"};
            }
            print "\n";
        }' "$@" >"$file"
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
