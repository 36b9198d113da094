# Network namespaces for the benches: netns_up PREFIX N makes PREFIX0..N-1, each with one veth pair to a
# hub namespace that routes, addresses 10.99.i.2/24; netns_down removes them.  Sourced.
netns_up() {
    local prefix=$1 n=$2 i
    ip netns add "$prefix-hub" || return 1
    ip netns exec "$prefix-hub" sysctl -qw net.ipv4.ip_forward=1
    for ((i = 0; i < n; i++)); do
        ip netns add "$prefix$i" &&
            ip link add eth0 netns "$prefix$i" type veth peer name "h$i" netns "$prefix-hub" &&
            ip -n "$prefix$i" addr add "10.99.$i.2/24" dev eth0 &&
            ip -n "$prefix$i" link set lo up && ip -n "$prefix$i" link set eth0 up &&
            ip -n "$prefix-hub" addr add "10.99.$i.1/24" dev "h$i" &&
            ip -n "$prefix-hub" link set "h$i" up &&
            ip -n "$prefix$i" route add default via "10.99.$i.1" || return 1
    done
}

netns_down() {
    local prefix=$1 n=$2 i
    for ((i = 0; i < n; i++)); do
        ip netns del "$prefix$i" 2>/dev/null
    done
    ip netns del "$prefix-hub" 2>/dev/null
}
