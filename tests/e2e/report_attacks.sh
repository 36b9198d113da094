#!/usr/bin/env bash
# A report that someone has touched is refused, each time with its own reason; so is the gate's slice.
. "$(dirname "$0")/lib.sh"
farm_up 3
site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-003]", playbooks: [base] }
policy:
  require: [inventory]
  max_age: 1h'
expect_status 0 muster up -s "$work/site.yaml" --yes --stages inventory
first=$MUSTER_STATE/runs/$(readlink "$MUSTER_STATE/runs/latest")
cp "$first/slices/gpu001.json" "$work/old-slice.json"
cp "$first/report.dsse.json" "$work/old-report.json"
expect_status 0 muster validate -s "$work/site.yaml" --stages inventory
run=$MUSTER_STATE/runs/$(readlink "$MUSTER_STATE/runs/latest")
report=$run/report.dsse.json
key=$MUSTER_STATE/keys/signing.pub
expect_status 0 muster report verify
expect_status 0 muster report verify "$report" --key "$key"

note "every 97th byte flipped: refused"
size=$(stat -c %s "$report")
for ((at = 0; at < size; at += 97)); do
    cp "$report" "$work/bad.json"
    byte=$(dd if="$report" bs=1 skip="$at" count=1 status=none | od -An -tu1 | tr -d ' ')
    printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$work/bad.json" bs=1 seek="$at" conv=notrunc status=none
    "$bin/muster" report verify "$work/bad.json" --key "$key" >"$work/out" 2>&1
    status=$?
    expect_equal "status with byte $at flipped" 2 "$status"
done

note "cut short, empty, not JSON, another key"
head -c $((size / 2)) "$report" >"$work/bad.json"
expect_status 2 muster report verify "$work/bad.json" --key "$key"
: >"$work/bad.json"
expect_status 2 muster report verify "$work/bad.json" --key "$key"
openssl genpkey -algorithm ed25519 -out "$work/other.key" 2>/dev/null || fail "openssl genpkey"
openssl pkey -in "$work/other.key" -pubout -out "$work/other.pub" || fail "openssl pkey"
expect_status 2 muster report verify "$report" --key "$work/other.pub"

note "evidence swapped, cut and altered"
cp -r "$run" "$work/run"
cp "$work/run/evidence/gpu001.jsonl" "$work/run/evidence/gpu002.jsonl"
expect_status 2 muster report verify "$work/run/report.dsse.json" --key "$key"
expect_contains "$work/err" "gpu002"
cp "$run/evidence/gpu002.jsonl" "$work/run/evidence/"
sed -i '$d' "$work/run/evidence/gpu003.jsonl"
expect_status 2 muster report verify "$work/run/report.dsse.json" --key "$key"
expect_contains "$work/err" "gpu003"
rm "$work/run/evidence/gpu003.jsonl"
expect_status 2 muster report verify "$work/run/report.dsse.json" --key "$key"
expect_contains "$work/err" "missing"

expect_contains "$work/err" "gpu003"

note "an older report and an older slice"
serial=$(muster report show | sed -n 's/^serial \([0-9]*\),.*/\1/p')
expect_status 2 muster report verify "$work/old-report.json" --key "$key" --min-serial "$serial"
expect_contains "$work/err" "serial"
expect_status 0 node gpu001 /var/lib/muster/bin/muster-gate
node gpu001 sh -c 'cat > /var/lib/muster/slice.json' <"$work/old-slice.json"
expect_status 2 node gpu001 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "older"
node gpu001 sh -c 'cat > /var/lib/muster/slice.json' <"$run/slices/gpu002.json"
expect_status 2 node gpu001 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "gpu002"
node gpu001 rm /var/lib/muster/slice.json
expect_status 2 node gpu001 /var/lib/muster/bin/muster-gate
expect_status 0 muster publish -s "$work/site.yaml"
expect_status 0 node gpu001 /var/lib/muster/bin/muster-gate
expect_status 1 muster publish -s "$work/site.yaml" --run "$(basename "$first")"
expect_contains "$work/err" "older"

note "time is over"
sed -i 's/max_age: 1h/max_age: 2s/' "$work/site.yaml"
expect_status 0 muster validate -s "$work/site.yaml" --stages inventory
sleep 2.5
expect_status 2 node gpu001 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "expired"
expect_status 2 muster report verify
expect_contains "$work/err" "expired"
sed -i 's/max_age: 2s/max_age: 1h/' "$work/site.yaml"
expect_status 0 muster validate -s "$work/site.yaml" --stages inventory

note "another machine under the same name"
node gpu001 sh -c 'echo 0123456789abcdef0123456789abcdef > /etc/machine-id'
expect_status 1 node gpu001 /var/lib/muster/bin/muster-gate
expect_contains "$work/out" "machine"
expect_status 1 muster validate -s "$work/site.yaml" --stages inventory
expect_contains "$work/err" "muster enroll --renew -w gpu001"
