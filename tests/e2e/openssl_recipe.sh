#!/bin/bash
# docs/verify-with-openssl.md does what it says: run its text against a sample report, whole and altered.
set -u
bin=${MUSTER_BIN:?}
source=${MUSTER_SOURCE:?}
command -v openssl > /dev/null || { echo "skipped: no openssl program here"; exit 77; }
case $(openssl version) in
"OpenSSL 3"*) ;;
*) echo "skipped: the recipe needs OpenSSL 3, here is $(openssl version)"; exit 77 ;;
esac
[ -x "$bin/sample-report" ] || { echo "FAIL: $bin/sample-report is not built"; exit 1; }
dir=$(mktemp -d /tmp/muster-recipe-XXXXXX)
trap 'rm -rf "$dir"' EXIT
"$bin/sample-report" "$dir" n1 n2 n3 || exit 1
sed -n '/^```sh$/,/^```$/p' "$source/docs/verify-with-openssl.md" | grep -v '^```' > "$dir/recipe.sh"
export REPORT=$dir/report.dsse.json PUB=$dir/signing.pub EVIDENCE=$dir/evidence NODE=n2 TMPDIR=$dir

failures=0
expect() { # STATUS WHAT
    bash "$dir/recipe.sh" > "$dir/out" 2>&1
    local got=$?
    [ $got -ne 0 ] && got=1
    if [ $got -ne "$1" ]; then
        echo "FAIL: $2: the recipe ended with $got, expected $1"
        cat "$dir/out"
        failures=$((failures + 1))
    else
        echo "ok: $2"
    fi
}

expect 0 "an honest report verifies"
grep -q "evidence of n2: .* all signed by the node" "$dir/out" || { echo "FAIL: part 2 did not run"; exit 1; }

cp "$REPORT" "$dir/kept"
# One character within the payload.
sed 's/\("payload":"................................\)./\1_/; s/_/A/' "$dir/kept" > "$REPORT"
cmp -s "$dir/kept" "$REPORT" && sed 's/\("payload":"................................\)./\1B/' "$dir/kept" > "$REPORT"
expect 1 "an altered payload is refused"
cp "$dir/kept" "$REPORT"

mkdir "$dir/other"
"$bin/sample-report" "$dir/other" n1 n2 n3 || exit 1
PUB=$dir/other/signing.pub expect 1 "another key is refused"
EVIDENCE=$dir/other/evidence expect 1 "the evidence of another report is refused"
cp "$EVIDENCE/n2.jsonl" "$dir/n2.kept"
sed '$d' "$dir/n2.kept" > "$EVIDENCE/n2.jsonl"
expect 1 "evidence without its last record is refused"
exit $((failures > 0))
