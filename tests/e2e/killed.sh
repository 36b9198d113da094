#!/usr/bin/env bash
# Controller and agents killed in the middle: the nodes are as before or as planned, the next run says
# which, and a broken run goes on where it was.
. "$(dirname "$0")/lib.sh"
farm_up 4
site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-004]", playbooks: [base, nccl] }
policy:
  require: [inventory, pairs]
  floors: { tcp_bandwidth: 50Mb/s }
stages:
  pairs: { duration_ms: 1000, content_bytes: 4194304, latency_iterations: 200 }'
site="$work/site.yaml"

agents_left() {
    nodes_sh 'pgrep -l muster-agent'
}

note "the controller is killed while the pairs run: the agents end by themselves"
muster up -s "$site" --yes >"$work/out" 2>"$work/err" &
job=$!
wait_until 60 grep -q '^inventory' "$work/err" || fail "the run did not get to the stages"
sleep 1
controller=$(pgrep -P "$job" -x muster || pgrep -x -f "$bin/muster up -s $site --yes" | head -1)
[ -n "$controller" ] || fail "the controller's process is not to be found"
kill -KILL "$controller"
wait "$job" 2>/dev/null
agents_gone() { [ -z "$(agents_left)" ]; }
wait_until 10 agents_gone || fail "agents are left: $(agents_left)"
checks=$((checks + 1))

note "between the break and the resumption somebody looks, and half a record is at the end of a file"
printf '{"cause":null,"condit' >>"$MUSTER_STATE/runs/latest/evidence/gpu002.jsonl"
expect_status 0 muster facts -s "$site"
expect_status 0 muster plan -s "$site"
expect_status 2 muster report show
expect_contains "$work/err" "has a report yet; muster up or muster validate makes one"

note "the broken run is resumed: what is measured is not measured again"
expect_status 0 muster up -s "$site" --yes --resume latest
expect_contains "$work/err" "inventory: already measured in this run"
expect_contains "$work/out" "is ready"
expect_status 0 muster plan -s "$site"
expect_status 0 muster report verify

note "an agent dies in the middle of a stage: that node fails, the others go on"
muster validate -s "$site" >"$work/out" 2>"$work/err" &
job=$!
wait_until 60 grep -q '^inventory' "$work/err" || fail "the run did not get to the stages"
sleep 1
pids=$(node gpu003 pgrep -x muster-agent)
node gpu003 sh -c "kill -KILL $(printf '%s ' $pids)"
wait "$job"
expect_equal "exit status" 1 $?
expect_contains "$work/err" "gpu003: "
expect_contains "$work/out" "node-lost"
expect_equal "ready nodes" "gpu[001-002,004]" "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"

note "two controllers do not work in one state directory"
muster validate -s "$site" --stages pairs >"$work/out2" 2>"$work/err2" &
job=$!
wait_until 60 grep -q '^facts' "$work/err2" || fail "the run did not begin"
expect_status 3 muster validate -s "$site" --stages inventory
expect_contains "$work/err" "another muster"
wait "$job"
expect_equal "agents left" "" "$(agents_left)"
