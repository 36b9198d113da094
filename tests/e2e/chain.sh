#!/usr/bin/env bash
# The main job, as an operator does it: keys, everything, report, gate; then a second time.
. "$(dirname "$0")/lib.sh"
farm_up 4
site() {
    site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-004]", playbooks: [base, nccl] }
policy:
  require: [inventory, pairs, allreduce-cluster]
  floors: { tcp_bandwidth: 50Mb/s, allreduce_busbw: 1MB/s }
stages:
  pairs: { duration_ms: 500, content_bytes: 4194304, latency_iterations: 200 }
  allreduce-cluster: { sizes_bytes: [8, 65536, 1048576] }'
}
site
export MUSTER_STATE=$work/state

note "a node whose host key nobody has enrolled is refused, with the command that enrols it"
sed -i "s/config: [^ }]*/config: $(printf '%s' "$work/ssh_config" | sed 's/[&/]/\\&/g')/" "$work/site.yaml"
grep -v -i -e UserKnownHostsFile "$farm/ssh_config" >"$work/ssh_config"
echo "    UserKnownHostsFile $work/none" >>"$work/ssh_config"
expect_status 4 muster facts -s "$work/site.yaml"
expect_contains "$work/err" "muster enroll"

note "enroll shows fingerprints and takes the keys"
expect_status 0 muster enroll -s "$work/site.yaml" --yes
expect_contains "$work/out" "SHA256:"
expect_contains "$work/out" "gpu001"
expect_status 0 muster enroll -s "$work/site.yaml" --yes
expect_contains "$work/out" "known already"

note "up does everything and says ready"
expect_status 0 muster up -s "$work/site.yaml" --yes
expect_contains "$work/out" "Cluster lab is ready"
expect_contains "$work/out" "gpu[001-004]"
expect_contains "$work/err" "memlock"
run=$(readlink "$work/state/runs/latest")
for f in site.json plan.json verdict.json report.dsse.json journal.jsonl; do
    expect_file "$work/state/runs/$run/$f"
done
for n in gpu001 gpu002 gpu003 gpu004; do
    expect_file "$work/state/runs/$run/facts/$n.json"
    expect_file "$work/state/runs/$run/evidence/$n.jsonl"
    expect_file "$work/state/runs/$run/slices/$n.json"
done

note "the nodes are configured"
nodes_sh "cat /etc/nccl.conf" >"$work/nccl" || fail "cannot read /etc/nccl.conf"
expect_equal "lines with NCCL_SOCKET_IFNAME" 4 "$(grep -c 'NCCL_SOCKET_IFNAME' "$work/nccl")"

note "the report verifies, and the gate of each node says ready"
expect_status 0 muster report verify
expect_contains "$work/out" "evidence files match"
expect_status 0 muster gate -s "$work/site.yaml"
for n in gpu001 gpu002 gpu003 gpu004; do
    expect_status 0 node "$n" /var/lib/muster/bin/muster-gate
done
expect_status 0 muster report show
expect_status 0 muster report show --node gpu002
expect_contains "$work/out" "gpu001>gpu002"
for format in junit csv prometheus test-result; do
    expect_status 0 muster report export --format "$format"
done

note "nothing is left running on the nodes"
expect_equal "agents still running" "" "$(nodes_sh 'pgrep -l muster-agent')"

note "a second apply changes nothing and says so"
expect_status 0 muster apply -s "$work/site.yaml" --yes
expect_contains "$work/out" "0 nodes changed, 4 as wanted already"

note "a changed managed file closes the gate of that node alone"
node gpu003 sh -c 'echo "NCCL_DEBUG=INFO" >> /etc/nccl.conf'
expect_status 1 node gpu003 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "nccl.conf"
expect_status 0 node gpu002 /var/lib/muster/bin/muster-gate
expect_status 1 muster gate -s "$work/site.yaml"

note "rollback refuses what someone else changed, and undoes the rest with --force"
expect_status 1 muster rollback -s "$work/site.yaml" --run "$run" --yes
expect_contains "$work/err" "gpu003"
expect_status 0 muster rollback -s "$work/site.yaml" -w gpu003 --run "$run" --yes --force
nodes_sh "ls /etc/nccl.conf" >"$work/left" 2>&1
expect_equal "nodes that still have nccl.conf" 0 "$(grep -c ': /etc/nccl.conf$' "$work/left")"
