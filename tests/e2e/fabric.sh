#!/usr/bin/env bash
# muster fabric on a simulated subnet with the real opensm: healthy, then with one planted fault
# after another.  Each fault must be named with its ports, and nothing else.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_fabric.sh"
fabric_needs

tree="hosts=node[0001-0008] hcas=mlx5_0 leaves=leaf[001-004] spines=spine[001-002] trunk=2 rate=4xHDR"
H=node0002' mlx5_0'
leaf1=S-b8599f0300a00000 leaf2=S-b8599f0300a00010 leaf4=S-b8599f0300a00030
spine1=S-b8599f0300a00100 spine2=S-b8599f0300a00110
host5=H-b8599f0300100040 host8=H-b8599f0300100070

site_file() {
    cat >"$work/site.yaml" <<YAML
cluster: ib
fabric:
  kind: infiniband
  rate: 100Gb/s
  mtu: 2048
  subnet_managers: [node0001, node0008]
  routing: ftree
  subnet:
    guids: { node0001: "0xb8599f0300100001", node0008: "0xb8599f0300100071" }
    fall_back_to: [updn]
    sweep_interval: 1
    poll_ms: 300
    poll_retries: 1
    partitions:
      - { name: storage, key: "0x0020", ipoib: true, members: { "0xb8599f0300100021": full } }
    qos:
      - { name: DEFAULT, sl: 0, share: 60 }
      - { name: storage, sl: 3, share: 40, pkey: "0x0020" }
nodes: [ "node[0001-0008]" ]
YAML
}

fabric() {
    at "$H" "$bin/muster" fabric --site "$work/site.yaml" "$@"
}

# expect STATUS "CAUSE SUBJECT"... -- COMMAND...: that status, and exactly those findings.
expect() {
    local want=$1 status=0 wanted found
    shift
    wanted=
    while [ "$1" != -- ]; do
        wanted+="$1"$'\n'
        shift
    done
    shift
    fabric "$@" >"$work/out" || status=$?
    found=$(grep -E '^(ib|sm|cable|node|counters|not-measured|opensm)[a-z-]* ' "$work/out" | sort)
    [ "$status" -eq "$want" ] ||
        fail "$*: status $status, not $want: $(cat "$work/out" "$sim/stderr")"
    [ "$found" = "$(printf '%s' "$wanted" | sort)" ] ||
        fail "$*: findings are not '$wanted': $(cat "$work/out" "$sim/stderr")"
    checks=$((checks + 1))
}

shows() {
    grep -qF -- "$1" "$work/out" || fail "'$1' is missing in: $(cat "$work/out")"
    checks=$((checks + 1))
}

equal() {
    [ "$2" = "$3" ] || fail "$1: is '$2', not '$3'"
    checks=$((checks + 1))
}

up() {
    grep -q 'SUBNET UP' "$sim/$1.log" 2>/dev/null
}

logged() {
    grep -q "$2" "$sim/$1.log" 2>/dev/null
}

# The subnet as planned again; opensm's last table was made by ftree.
healed() {
    fabric cables --fat-tree "$tree" >"$work/out" && fabric sm-check --log "$sim/a.log" --master node0001 >"$work/out"
}

site_file

note "opensm's files are refused when wrong, and written"
sed 's/sl: 3/sl: 17/' "$work/site.yaml" >"$work/bad.yaml"
"$bin/muster" fabric --site "$work/bad.yaml" sm-config --out "$work/bad" 2>"$work/out" && fail "sl 17 was taken"
shows "fabric.subnet.qos.storage: sl: must be 0 to 15"
[ ! -e "$work/bad" ] || fail "files were written for a site that was refused"
"$bin/muster" fabric --site "$work/site.yaml" sm-config --out "$work/osm" --dir "$work/osm" >"$work/out" ||
    fail "sm-config ended with $?"
shows "$work/osm/node0001/opensm.conf"
"$bin/muster" fabric sm-explain -- opensm -g 0x7fe --torus_conf 2x2x2 -p 0x1 -F >"$work/out"
equal "status of sm-explain" $? 1
equal "mistakes found" "$(grep -c '^opensm-options' "$work/out")" 7

note "a subnet without a manager"
net_write "$work/net"
sim_start "$work/net"
expect 1 "sm-missing subnet" "sm-wrong-node node0001" -- sm-check --master node0001
expect 0 -- cables --fat-tree "$tree"

note "the manager with muster's files: up, master, with the planned routing, partition and QoS"
sm_start a node0001\ mlx5_0 "$work/osm/node0001/opensm.conf"
wait_for 20 "SUBNET UP" up a
expect 0 -- sm-check --log "$sim/a.log" --master node0001
at "$H" sminfo >"$work/out" || fail "sminfo ended with $?"
shows "priority 14 state 3 SMINFO_MASTER"
at "$H" smpquery -G pkeys 0xb8599f0300100021 1 >"$work/out" || fail "smpquery ended with $?"
shows "0x8020"
grep -E 'ERR|PARSE|rror' "$sim/a.log" && fail "opensm's log has an error with muster's files"
grep -E 'Unrecognized|Invalid|-E-' "$sim/a.out" "$sim/a.out.err" && fail "opensm did not take muster's opensm.conf"
fabric discover >"$work/out" || fail "discover ended with $?"
shows "14 nodes, 6 of them switches"
equal "links at 4xHDR" "$(grep -c 'Active  4xHDR' "$work/out")" 24
expect 0 -- check --fat-tree "$tree" --master node0001 --log "$sim/a.log"
expect 0 -- cables --plan "$work/net"

note "counters: errors since the last reading, never reset"
expect 0 -- counters --counters "$work/counters.json"
expect 0 -- counters --counters "$work/counters.json"
sim_say "PerformanceSet \"$leaf1\"[3] PortCounters.SymbolErrorCounter=700"
sim_say "PerformanceSet \"$leaf2\"[1] PortCounters.PortXmitWait=90000000"
expect 1 "ib-symbol-errors leaf001 port 3 <-> spine001 port 1" \
    "ib-congestion node0003 mlx5_0 port 1 <-> leaf002 port 1" -- counters --counters "$work/counters.json"
shows "leaf001 port 3: 700 SymbolErrorCounter"
expect 0 -- counters --counters "$work/counters.json"
at "$H" perfquery -G 0xb8599f0300a00000 3 >"$work/out" || fail "perfquery ended with $?"
shows "SymbolErrorCounter:..............700"

note "a cable that is out; opensm leaves ftree for it"
sim_say "Unlink \"$leaf2\"[3]"
expect 1 "cable-missing leaf002 port 3 <-> spine001 port 3" -- cables --fat-tree "$tree"
wait_for 10 "opensm notices" logged a 'updn tables configured'
expect 1 "sm-routing $sim/a.log" -- sm-check --log "$sim/a.log" --master node0001
sim_say "ReLink \"$leaf2\"[3]"
wait_for 20 "the subnet is whole" healed

note "two cables swapped"
sim_say "Unlink \"$leaf1\"[3]"
sim_say "Unlink \"$leaf2\"[3]"
sim_say "Link \"$leaf1\"[3] \"$spine1\"[3]"
sim_say "Link \"$leaf2\"[3] \"$spine1\"[1]"
expect 1 "cable-swapped spine001 port 1, spine001 port 3" -- cables --fat-tree "$tree"
shows "22 of 24 cables are in place; 2 plugs to move, 0 cables to plug, 0 to remove"
sim_say "Unlink \"$leaf1\"[3]"
sim_say "Unlink \"$leaf2\"[3]"
sim_say "Link \"$leaf1\"[3] \"$spine1\"[1]"
sim_say "Link \"$leaf2\"[3] \"$spine1\"[3]"

note "a plug in the wrong port, a host that is off"
sim_say "Unlink \"$host8\"[1]"
sim_say "Link \"$host8\"[1] \"$leaf4\"[7]"
expect 1 "cable-wrong-port leaf004 port 7" -- cables --fat-tree "$tree"
shows "move the plug in leaf004 port 7 to leaf004 port 2"
sim_say "Unlink \"$host8\"[1]"
sim_say "Link \"$host8\"[1] \"$leaf4\"[2]"
sim_say "Unlink \"$host5\"[1]"
expect 1 "node-missing node0005 mlx5_0" -- cables --fat-tree "$tree"
sim_say "ReLink \"$host5\"[1]"
wait_for 20 "the subnet is whole" healed

note "a standby; the master dies; two masters"
sm_start b node0008\ mlx5_0 "$work/osm/node0008/opensm.conf"
wait_for 20 "the standby" logged b 'Entering STANDBY'
expect 0 -- sm-check
sm_stop a KILL
wait_for 20 "the standby takes over" logged b 'SUBNET UP'
expect 1 "sm-wrong-node node0001" -- sm-check
{
    cat "$work/osm/node0001/opensm.conf"
    echo "sm_key 0x2"
} >"$work/other.conf"
sm_start c node0001\ mlx5_0 "$work/other.conf"
wait_for 20 "a second master" logged c 'Entering MASTER'
fabric sm-check >"$work/out"
equal "status with two masters" $? 1
shows "sm-two-masters node0001 mlx5_0 port 1 (priority 14), node0008 mlx5_0 port 1 (priority 13)"
sm_stop c
sm_stop b

note "a switch that does not answer"
sim_say "Error \"$spine2\" 100"
fabric cables --fat-tree "$tree" >"$work/out"
equal "status with a silent switch" $? 1
shows "node-silent spine002"
fabric discover >"$work/out"
equal "status of an incomplete discovery" $? 1
shows "INCOMPLETE: what is at the other end of leaf001 port 5 does not answer, though the link is up"
sim_stop

note "narrow and slow links"
net_write "$work/net" "leaf003:5=1xHDR" "node0006 mlx5_0:1=4xFDR"
sim_start "$work/net"
sm_start d node0001\ mlx5_0 "$work/osm/node0001/opensm.conf"
wait_for 20 "SUBNET UP" up d
expect 1 "ib-link-narrow leaf003 port 5 <-> spine002 port 5" \
    "ib-link-slow node0006 mlx5_0 port 1 <-> leaf003 port 2" -- \
    check --fat-tree "$tree" --master node0001 --log "$sim/d.log"
sm_stop d
sim_stop

note "a torus of 2 x 2 x 2 with its own routing"
cat >"$work/site.yaml" <<YAML
cluster: ib
fabric:
  kind: infiniband
  subnet_managers: [node0001]
  routing: torus-2QoS
  subnet:
    torus:
      size: [2, 2, 2]
      seeds:
        - xp_link: ["0xb8599f0300a00000", "0xb8599f0300a00040"]
          yp_link: ["0xb8599f0300a00000", "0xb8599f0300a00020"]
          zp_link: ["0xb8599f0300a00000", "0xb8599f0300a00010"]
nodes: [ "node[0001-0008]" ]
YAML
rm -r "$work/osm"
"$bin/muster" fabric --site "$work/site.yaml" sm-config --out "$work/osm" --dir "$work/osm" >"$work/out" ||
    fail "sm-config ended with $?"
torus_write "$work/net"
sim_start "$work/net"
sm_start e node0001\ mlx5_0 "$work/osm/node0001/opensm.conf"
wait_for 20 "SUBNET UP" up e
expect 0 -- check --plan "$work/net" --log "$sim/e.log"
expect 0 -- sm-check --routing torus-2QoS --log "$sim/e.log"
sm_stop e
sim_stop

note "management packets that nobody answers end at the deadline"
fabric discover --deadline 1s >"$work/out"
equal "status at the deadline" $? 5
grep -q 'the deadline passed' "$sim/stderr" || fail "no word about the deadline: $(cat "$sim/stderr")"
