#!/bin/bash
# The GPU stages on the real GPUs of this machine, each run timed, and a table of what they found.
#   tests/bench/gpu_device.sh AGENT [OUTPUT-DIRECTORY]
# Writes facts.json and one STAGE.jsonl per stage there.  Exit 1 when a stage does not end well.
set -u
agent=$(readlink -f "${1:?usage: $0 AGENT [OUTPUT-DIRECTORY]}")
out=${2:-$(mktemp -d)}
stages=${STAGES:-gpu pcie shm}
here=$(dirname "$(readlink -f "$0")")
status=0
mkdir -p "$out"
[ -s /etc/machine-id ] || { echo "$0: /etc/machine-id is empty: no agent starts here"; exit 3; }
nvidia-smi --query-gpu=index,name,driver_version,pci.bus_id,persistence_mode,ecc.mode.current --format=csv
"$agent" facts >"$out/facts.json" || status=1
seq=0
for stage in $stages; do
    begin=$(date +%s%N)
    # The agent ends when its input closes, so the input stays open until the stage has answered.
    coproc AGENT { "$agent" serve 2>"$out/$stage.err"; }
    hello='{"v":1,"id":1,"op":"hello","run":"20260101T000000Z-0001","node":"node","seq":'$seq'}'
    printf '%s\n' "$hello" >&"${AGENT[1]}"
    printf '%s\n' '{"v":1,"id":2,"op":"stage","stage":"'"$stage"'","params":{},"deadline_ms":120000}' \
        >&"${AGENT[1]}"
    : >"$out/$stage.jsonl"
    ended=
    while IFS= read -r -t 130 line <&"${AGENT[0]}"; do
        printf '%s\n' "$line" >>"$out/$stage.jsonl"
        case $line in *'"id":2'*'"ok":'*) ended=$line; break ;; esac
    done
    pid=$AGENT_PID
    printf '%s\n' '{"v":1,"id":3,"op":"bye"}' >&"${AGENT[1]}"
    input=${AGENT[1]}
    exec {input}>&- # an agent that was refused its hello ends by this
    wait "$pid"
    agent_status=$?
    printf '%s: %d ms, agent status %d: %s\n' "$stage" \
        $((($(date +%s%N) - begin) / 1000000)) "$agent_status" "${ended:-no reply}"
    case $ended in *'"ok":true'*) ;; *) status=1; tail -5 "$out/$stage.err" ;; esac
done
python3 "$here/gpu_table.py" "$out" || status=1
exit $status
