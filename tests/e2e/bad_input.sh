#!/usr/bin/env bash
# What people get wrong, and what nodes do wrong: a clear message, a status that is not zero.
. "$(dirname "$0")/lib.sh"
farm_up 3
good='fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-003]", playbooks: [base] }
policy: { require: [inventory] }'
site_write "$good"
site="$work/site.yaml"
up() { muster up -s "$site" --yes --stages inventory; }

# bad_site TEXT MESSAGE: the site file with TEXT is refused with MESSAGE, and nothing is contacted.
bad_site() {
    printf 'cluster: lab\nssh: { user: root, config: %s }\n%s\n' "$farm/ssh_config" "$1" >"$work/bad.yaml"
    expect_status 2 muster up -s "$work/bad.yaml" --yes
    expect_contains "$work/err" "$2"
}

note "site files"
bad_site 'polcy: { require: all }
nodes: [ { names: gpu001 } ]' "did you mean 'policy'?"
bad_site 'nodes: [ { names: gpu001 }, { names: "gpu[001-002]" } ]' "gpu001"
bad_site 'nodes: [ { names: "gpu[001-" } ]' "bad.yaml:3"
bad_site 'nodes: [ { names: "gpu[003-001]" } ]' "bad.yaml:3"
bad_site 'fabric: { mtu: 89004.2 }
nodes: [ { names: gpu001 } ]' "89004.2"
bad_site 'fabric: { rate: 400GB }
nodes: [ { names: gpu001 } ]' "400GB"
bad_site 'policy: { require: [inventroy] }
nodes: [ { names: gpu001 } ]' "did you mean 'inventory'?"
bad_site 'nodes: [ { names: gpu001, playbooks: [nosuch] } ]' "nosuch"
bad_site 'nodes: []' "bad.yaml"
bad_site 'nodes: [ { names: gpu001 } ]
nodes: [ { names: gpu002 } ]' "nodes"
expect_status 3 muster up -s "$work/none.yaml" --yes
expect_status 2 muster up -s "$site" -w gpu01 --yes
expect_contains "$work/err" "gpu01"
expect_status 2 muster up -s "$site" --stages invntory --yes
expect_contains "$work/err" "did you mean"
expect_status 2 muster ep
expect_status 2 muster up --nope

note "an unreachable node and a refused key among good nodes: only they fail"
printf '%s\n' "$good" | sed 's/001-003/001-004/' >"$work/tail"
site_write "$(cat "$work/tail")"
sed -i 's/playbooks: \[base\] }/playbooks: [base] }\n  - { names: gone, host: 10.77.250.250, playbooks: [] }/; s/001-004/001-003/' "$site"
sed -i 's/^ssh: {/ssh: { connect_timeout: 3s,/' "$site"
node gpu002 sh -c 'mv /root/.ssh/authorized_keys /root/.ssh/away 2>/dev/null || mv /etc/ssh/authorized_keys /etc/ssh/away'
expect_status 1 up
expect_contains "$work/err" "auth-refused"
expect_contains "$work/err" "unreachable"
expect_equal "ready nodes" "gpu[001,003]" "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"
node gpu002 sh -c 'mv /root/.ssh/away /root/.ssh/authorized_keys 2>/dev/null || mv /etc/ssh/away /etc/ssh/authorized_keys'

note "a changed host key is refused, and enroll --renew takes it"
site_write "$good"
grep -v -i UserKnownHostsFile "$farm/ssh_config" >"$work/ssh_config"
sed -i "s#$farm/ssh_config#$work/ssh_config#" "$site"
expect_status 0 muster enroll -s "$site" --yes
expect_status 0 up
node gpu003 sh -c 'rm /etc/ssh/ssh_host_ed25519_key* && ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key && kill -HUP $(cat /run/sshd.pid)'
wait_until 10 hub sh -c "echo | timeout 1 bash -c 'cat < /dev/tcp/gpu003/22 | head -1' | grep -q SSH" || fail "sshd of gpu003 did not come back"
expect_status 1 up
expect_contains "$work/err" "host-key-changed"
expect_equal "ready nodes" "gpu[001-002]" "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"
expect_status 1 muster enroll -s "$site" --yes
expect_contains "$work/out" "CHANGED"
expect_status 0 muster enroll -s "$site" --yes --renew -w gpu003
expect_status 0 up

note "a user that may not become root, and one that did not try to"
sed -i 's/^ssh: { user: root,/ssh: { user: ops, become: sudo,/' "$site"
expect_status 4 muster facts -s "$site"
expect_contains "$work/err" "sudo-refused"
sed -i 's/become: sudo,/become: none,/' "$site"
expect_status 4 muster facts -s "$site"
expect_contains "$work/err" "become"
site_write "$good"

note "no room for the agent"
node gpu001 sh -c 'rm -rf /var/lib/muster/agent && mkdir -p /var/lib/muster/agent && mount -t tmpfs -o size=1m,mode=755 tmpfs /var/lib/muster/agent'
expect_status 1 up
expect_contains "$work/err" "disk-full"
expect_equal "files left behind" "" "$(node gpu001 find /var/lib/muster/agent -type f)"
node gpu001 umount /var/lib/muster/agent
expect_status 0 up

note "an agent file that was tampered with is replaced"
agent=$(node gpu002 sh -c 'ls /var/lib/muster/agent/*/muster-agent')
node gpu002 sh -c "printf x | dd of=$agent bs=1 seek=100000 conv=notrunc status=none"
expect_status 0 up
want=$(sha256sum <"$bin/muster-agent" | cut -d' ' -f1)
expect_equal "hash of the agent on gpu002" "$want" "$(node gpu002 sha256sum "$agent" | cut -d' ' -f1)"
