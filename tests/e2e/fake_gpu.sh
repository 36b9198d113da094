#!/usr/bin/env bash
# The GPU stages through the whole chain, over stand-ins for the driver's libraries: the faulty GPU
# is named and no other, a node without GPUs is not asked, and the report opens no gate.
. "$(dirname "$0")/lib.sh"
libraries=$(dirname "$bin")/fake_gpu
[ -e "$libraries/libcuda.so.1" ] || { echo "skipped: no stand-ins in $libraries"; exit 77; }
farm_up 3
site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-003]", playbooks: [] }
policy:
  require: [inventory, gpu, pcie, shm]
  floors: { memlock: 64kB }'
export MUSTER_STATE=$work/state

# Two GPUs in a node, with the faults of $2.
give_gpus() {
    node "$1" sh -c 'mkdir -p /opt/fake; mknod /dev/kmsg c 1 11; cat >/opt/fake/gpus
echo "SetEnv MUSTER_FAKE_GPU=/opt/fake/gpus LD_LIBRARY_PATH=/opt/fake" >>/etc/ssh/sshd_config
kill -HUP "$(cat /run/sshd.pid)"' <<<"gpus 2
memory_bytes 67108864
$2" || fail "cannot give $1 its GPUs"
    node_install "$1" "$libraries/libcuda.so.1" /opt/fake/libcuda.so.1
    node_install "$1" "$libraries/libnvidia-ml.so.1" /opt/fake/libnvidia-ml.so.1
}
give_gpus gpu001 ""
give_gpus gpu002 "fault 1 compute-wrong"

note "validate finds the GPU that computes wrong, and no other"
expect_status 1 muster validate -s "$work/site.yaml" --stages inventory,gpu,pcie,shm
expect_contains "$work/out" "compute-wrong"
run=$(readlink "$work/state/runs/latest")
verdict=$work/state/runs/$run/verdict.json
state_of() {
    python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["nodes"][sys.argv[2]]["state"])' \
        "$verdict" "$1"
}
expect_equal "state of gpu001" ready "$(state_of gpu001)"
expect_equal "state of gpu002" not_ready "$(state_of gpu002)"
expect_equal "state of gpu003" unknown "$(state_of gpu003)"
expect_equal "failed elements" "gpu002/gpu:1 compute" "$(python3 -c '
import json, sys
for e in json.load(open(sys.argv[1]))["elements"]:
    if e["verdict"] == "FAIL":
        print(e["subject"], e["check"])' "$verdict")"

note "a node without GPUs was not asked"
expect_equal "GPU records of gpu003" 0 "$(grep -c '"stage":"gpu"' "$work/state/runs/$run/evidence/gpu003.jsonl")"

note "the report says simulated and opens no gate"
expect_equal "simulated in facts" true "$(python3 -c '
import json, sys
print(str(json.load(open(sys.argv[1]))["simulated"]).lower())' "$work/state/runs/$run/facts/gpu001.json")"
expect_status 2 node gpu001 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "simulated"

note "nothing is left running on the nodes"
expect_equal "agents still running" "" "$(nodes_sh 'pgrep -l muster-agent')"
