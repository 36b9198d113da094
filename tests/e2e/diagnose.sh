#!/usr/bin/env bash
# muster diagnose as its user runs it: every fixture by file, some by standard input and together,
# exit statuses, JSON and text, and a file that is not there.
set -u -o pipefail

: "${MUSTER_BIN:?set it to the directory of the built programs, as ctest does}"
source_dir=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
muster=$MUSTER_BIN/muster
fixtures=$source_dir/tests/fixtures/diagnose
work=$(mktemp -d "${TMPDIR:-/tmp}/muster-e2e-diagnose.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
checks=0

fail() {
    echo "FAILED diagnose: $*" >&2
    exit 1
}

command -v jq >/dev/null || {
    echo "skipped: jq is not installed" >&2
    exit 77
}

# expect STATUS CODE FILE...: exit status and cause of the JSON answer.
expect() {
    local status=$1 code=$2 rc=0
    shift 2
    "$muster" diagnose --json "$@" >"$work/answer" 2>"$work/err" || rc=$?
    [[ $rc -eq $status ]] || fail "$*: exit status $rc, expected $status: $(cat "$work/err")"
    [[ $(jq -r .cause_code "$work/answer") == "$code" ]] ||
        fail "$*: cause $(jq -r .cause_code "$work/answer"), expected $code"
    checks=$((checks + 1))
}

# says EXPECT: each entry of must_mention (alternatives a|b) is in diagnosis or remedy, none of must_not_say.
says() {
    local expected=$1 text entry alternative found
    text=$(jq -r '.diagnosis + " " + .remedy' "$work/answer")
    while IFS= read -r entry; do
        found=no
        while IFS= read -r alternative; do
            [[ ${text,,} == *"${alternative,,}"* ]] && found=yes
        done < <(tr '|' '\n' <<<"$entry")
        [[ $found == yes ]] || fail "$expected: does not say '$entry': $text"
    done < <(jq -r '.must_mention[]' "$expected")
    while IFS= read -r entry; do
        [[ ${text,,} != *"${entry,,}"* ]] || fail "$expected: says '$entry': $text"
    done < <(jq -r '.must_not_say[]' "$expected")
}

count=0
for dir in "$fixtures"/*/; do
    code=$(jq -r .cause_code "$dir/expect.json")
    case $code in
        ok) status=0 ;;
        cannot-tell) status=2 ;;
        *) status=1 ;;
    esac
    expect "$status" "$code" "$dir/input.txt"
    [[ $(jq -r .severity "$work/answer") == $(jq -r .severity "$dir/expect.json") ]] ||
        fail "$dir: severity $(jq -r .severity "$work/answer")"
    says "$dir/expect.json"
    count=$((count + 1))
done
((count >= 60)) || fail "only $count fixtures below $fixtures"

# Standard input, with and without "-".
rc=0
"$muster" diagnose <"$fixtures/xid79-smi-lost/input.txt" >"$work/text" || rc=$?
[[ $rc -eq 1 ]] || fail "standard input: exit status $rc"
for part in gpu-fallen-off-bus "stdin:1: " "do: " "convicted by"; do
    grep -qF -- "$part" "$work/text" || fail "standard input: no '$part' in: $(cat "$work/text")"
done
rc=0
"$muster" diagnose - <"$fixtures/ok-ib-ndr/input.txt" >"$work/text" || rc=$?
[[ $rc -eq 0 ]] || fail "-: exit status $rc"
grep -qF "no fault" "$work/text" || fail "-: not called healthy: $(cat "$work/text")"

# Several files are one incident, and the file that convicts is named.
expect 1 gpu-fallen-off-bus "$fixtures/nccl-peer-closed/input.txt" "$fixtures/xid79-smi-lost/input.txt"
jq -e '.others | any(.cause_code == "peer-lost" and .relation == "consequence")' "$work/answer" >/dev/null ||
    fail "the lost peer is not called a consequence"
jq -e '.evidence | all(.file | endswith("xid79-smi-lost/input.txt"))' "$work/answer" >/dev/null ||
    fail "the evidence names the wrong file"

# Bad input.
rc=0
"$muster" diagnose "$work/missing" >"$work/text" 2>"$work/err" || rc=$?
[[ $rc -eq 2 ]] || fail "a missing file: exit status $rc"
grep -qF "$work/missing" "$work/err" || fail "a missing file is not named: $(cat "$work/err")"
expect 2 cannot-tell /dev/null

echo "diagnose: $checks checks passed"
