#!/usr/bin/env bash
# One bad node among four: exactly that node is not ready, with the right cause.
. "$(dirname "$0")/lib.sh"
farm_up 4
export MUSTER_STATE=$work/state
site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-004]", playbooks: [base] }
policy:
  require: [inventory, pairs, allreduce-cluster]
  floors: { tcp_bandwidth: 50Mb/s, allreduce_busbw: 1MB/s }
stages:
  pairs: { duration_ms: 500, content_bytes: 4194304, latency_iterations: 200 }
  allreduce-cluster: { sizes_bytes: [8, 65536] }'
cp "$farm/known_hosts" "$work/kh" || fail "the farm has no known_hosts"

state_of() { # NODE
    sed -n '/"nodes"/,$p' "$MUSTER_STATE/runs/latest/verdict.json" |
        awk -v n="\"$1\": {" 'index($0, n) {f=1} f && /"state"/ {gsub(/[",]/,""); print $2; exit}'
}

# only_bad NODE CAUSE: that node is not ready for that cause, the other three are ready.
only_bad() {
    local n
    for n in gpu001 gpu002 gpu003 gpu004; do
        if [ "$n" = "$1" ]; then
            expect_equal "state of $n" not_ready "$(state_of "$n")"
        else
            expect_equal "state of $n" ready "$(state_of "$n")"
        fi
    done
    expect_contains "$work/out" "$2"
}

note "healthy first"
expect_status 0 muster up -s "$work/site.yaml" --yes

note "a node whose network is down"
node gpu004 ip link set eth0 down
expect_status 1 muster validate -s "$work/site.yaml"
only_bad gpu004 unreachable
expect_status 2 muster validate -s "$work/site.yaml" -w gpu009
node gpu004 ip link set eth0 up
node gpu004 ip route replace default dev eth0 2>/dev/null

note "a node with a slow link"
node gpu002 tc qdisc add dev eth0 root tbf rate 20mbit burst 32kbit latency 50ms || skip "no tbf qdisc in this kernel"
expect_status 1 muster validate -s "$work/site.yaml"
only_bad gpu002 bandwidth-low
node gpu002 tc qdisc del dev eth0 root

note "a node that drops what does not come by SSH"
if hub sh -c 'command -v nft' >/dev/null; then
    node gpu003 nft add table inet t
    node gpu003 nft add chain inet t in '{ type filter hook input priority 0; }'
    node gpu003 nft add rule inet t in tcp sport 22 accept
    node gpu003 nft add rule inet t in tcp dport '!=' 22 drop
    expect_status 1 muster validate -s "$work/site.yaml"
    only_bad gpu003 tcp-connect
    node gpu003 nft delete table inet t
fi

note "healthy again"
expect_status 0 muster validate -s "$work/site.yaml"
