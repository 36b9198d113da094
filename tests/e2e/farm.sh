# The lab itself: four nodes that differ where nodes differ, and nothing left afterwards.
. "$(dirname "$0")/lib.sh"

mounts_before=$(wc -l </proc/self/mountinfo)
links_before=$(ip -o link | wc -l)
farm_up 4

note "each node answers over ssh under its own name"
while read -r name; do
    expect_equal "host name over ssh" "$name" "$(node_ssh "$name" hostname </dev/null)"
    expect_equal "/proc/sys/kernel/hostname" "$name" \
        "$(node "$name" cat /proc/sys/kernel/hostname </dev/null)"
done <"$farm/nodes"
expect_equal "number of nodes" 4 "$(wc -l <"$farm/nodes")"
expect_equal "name of node 3" gpu003 "$(node 3 hostname)"
expect_equal "ops by ssh" "ops /home/ops" \
    "$(hub ssh -F "$farm/ssh_config" ops@gpu002 'echo $(id -un) $HOME')"

expect_status 1 node 2 test -e /usr/bin/sudo
if [ -x /usr/bin/sudo ]; then
    expect_status 0 "$bin/lab-farm" up 1 --sudo --dir "$work/sudo" --tie $$
    expect_equal "ops becomes root with --sudo" 0 "$("$bin/lab-farm" ctl --dir "$work/sudo" -- \
        ssh -F "$work/sudo/ssh_config" ops@gpu001 sudo -n id -u)"
    expect_status 0 "$bin/lab-farm" down --dir "$work/sudo"
else
    note "--sudo is not tried: sudo is not installed here"
fi

note "identity is the node's own"
for file in /etc/machine-id /proc/sys/kernel/random/boot_id /etc/ssh/ssh_host_ed25519_key.pub; do
    expect_different "$file of gpu001 and gpu002" "$(node 1 cat "$file")" "$(node 2 cat "$file")"
done
expect_equal "host keys in a node" ssh_host_ed25519_key.pub \
    "$(node 1 sh -c 'cd /etc/ssh && ls ssh_host_*.pub')"
expect_equal "gpu001's key in known_hosts" 1 \
    "$(grep -cF "$(node 1 cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub)" "$farm/known_hosts")"
expect_status 1 node 1 test -e /var/lib/muster

note "files, mounts and settings of one node are not another's"
for file in /etc/muster-farm-test /run/muster-farm-test /tmp/muster-farm-test /root/x /dev/x; do
    expect_status 0 node 1 sh -c "echo one >$file"
    expect_status 1 node 2 test -e "$file"
    expect_no_path "$file"
done
before=$(cat /proc/sys/vm/swappiness)
expect_status 0 node 1 sh -c 'echo 7 >/proc/sys/vm/swappiness'
expect_equal "swappiness in gpu001" 7 "$(node 1 cat /proc/sys/vm/swappiness)"
expect_equal "swappiness in gpu002" "$before" "$(node 2 cat /proc/sys/vm/swappiness)"
expect_equal "swappiness of the machine" "$before" "$(cat /proc/sys/vm/swappiness)"
expect_status 0 node 1 sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_ecn'
expect_equal "tcp_ecn in gpu001" 1 "$(node 1 cat /proc/sys/net/ipv4/tcp_ecn)"
expect_different "tcp_ecn of gpu002" 1 "$(node 2 cat /proc/sys/net/ipv4/tcp_ecn)"

note "mtu in one node only, and packets of that size pass"
expect_status 0 node 1 ip link set eth0 mtu 9000
expect_equal "mtu of gpu001" 9000 "$(node 1 cat /sys/class/net/eth0/mtu)"
expect_equal "mtu of gpu002" 1500 "$(node 2 cat /sys/class/net/eth0/mtu)"
expect_equal "ssh through the larger mtu" gpu001 "$(node_ssh gpu001 hostname)"
expect_status 0 node_ssh gpu001 "head -c 3000000 /dev/zero | wc -c"
expect_contains "$work/out" 3000000

note "nodes reach each other"
expect_status 0 node 1 bash -c 'exec 3<>/dev/tcp/gpu004/22 && head -c 4 <&3'
expect_contains "$work/out" SSH-

note "a second farm beside the first"
expect_status 0 "$bin/lab-farm" up 2 --dir "$work/second" --prefix other --tie $$
expect_equal "name in the second" other002 "$("$bin/lab-farm" in --dir "$work/second" 2 hostname)"
expect_status 0 "$bin/lab-farm" down --dir "$work/second"
expect_no_path "$work/second"

note "command line"
expect_status 1 "$bin/lab-farm" up 1 --dir "$farm"
expect_contains "$work/err" "a farm is up in $farm"
expect_status 2 node gpu9 true
expect_contains "$work/err" "no node 'gpu9'; there are 1 to 4"
expect_status 2 "$bin/lab-farm" up 4x --dir "$work/x"
expect_status 2 "$bin/lab-farm" up 4 --drive
expect_status 42 node 1 sh -c 'exit 42'
expect_status 137 node 1 sh -c 'kill -9 $$'

# Zombies do not count: a container's pid 1 need not reap.
living() {
    [ "$(ps -o stat= -p "$1" | cut -c1)" != Z ] && kill -0 "$1" 2>/dev/null
}
gone() {
    ! living "$1"
}

note "down ends every process, also those started with ctl"
hub sleep 600 &
stray=$!
pids=$(cat "$farm/pids")
wait_until 10 living "$stray" || fail "the background command did not start"
farm_down
for pid in $pids $stray; do
    checks=$((checks + 1))
    gone "$pid" || fail "process $pid outlived the farm: $(ps -o args= -p "$pid")"
done
expect_no_path "$farm"
expect_equal "mounts of the machine" "$mounts_before" "$(wc -l </proc/self/mountinfo)"
expect_equal "interfaces of the machine" "$links_before" "$(ip -o link | wc -l)"
expect_status 0 "$bin/lab-farm" down --dir "$farm"

note "a killed hub takes the nodes along; the next farm clears its files"
farm_up 2
pids=$(cat "$farm/pids")
kill -9 "$(sed -n 's/^pid //p' "$farm/hub")"
for pid in $pids; do
    checks=$((checks + 1))
    wait_until 10 gone "$pid" || fail "node process $pid outlived its hub"
done
expect_status 1 "$bin/lab-farm" status --dir "$farm"
farm_up 2
farm_down
expect_no_path "$farm"

note "a killed up leaves nothing"
"$bin/lab-farm" up 32 --dir "$farm" &
up=$!
wait_until 10 test -s "$farm/pids" || fail "no node was started"
{ kill -9 "$up" && wait "$up"; } 2>/dev/null
checks=$((checks + 1))
wait_until 20 test ! -e "$farm" || fail "$farm is still there after its up was killed"

note "the farm ends with the process it is tied to"
sleep 600 &
owner=$!
expect_status 0 "$bin/lab-farm" up 2 --dir "$farm" --tie "$owner"
kill "$owner"
checks=$((checks + 1))
wait_until 20 test ! -e "$farm" || fail "the farm outlived process $owner"
