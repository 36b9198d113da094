#!/bin/bash
# Configuring many nodes: facts, three files, a sysctl with its read-back; `muster apply` beside
# ansible-playbook (forks = nodes, pipelining), on the node farm.
#
#   tests/bench/configure.sh BUILD-DIR [NODES]        default 64 nodes
#
# "first" meets nodes that hold nothing of the tool (muster sends its agent to each), "deployed" nodes
# that know the agent but not the configuration, "second" nodes that are as wanted.  CPU and memory
# are those of the controller with all its children, memory in a run of its own.  Needs root, ansible
# and python3; muster and lab-farm in BUILD-DIR/bin.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?build directory}" && pwd) nodes=${2:-64}
command -v ansible-playbook >/dev/null || { echo "skipped: ansible-playbook is missing: apt-get install ansible-core"; exit 77; }
work=$(mktemp -d /tmp/muster-bench-XXXXXX)
farm=("$build/bin/lab-farm")
trap '"${farm[@]}" down --dir "$work/farm" >/dev/null 2>&1; rm -rf "$work"' EXIT
gcc -O2 -D_GNU_SOURCE -o "$work/usage" "$here/usage.c"

mkdir -p "$work/playbooks"
cat >"$work/playbooks/bench.yml" <<'Y'
name: bench
summary: three files and a sysctl
resources:
  - file: /etc/profile.d/90-bench.sh
    content: "export BENCH_A=1\nexport BENCH_B=2\n"
  - file: /etc/sysctl.d/90-bench.conf
    content: "net.core.somaxconn=4096\nvm.zone_reclaim_mode=0\n"
  - file: /etc/security/limits.d/90-bench.conf
    content: "* hard memlock unlimited\n* soft memlock unlimited\n"
  - sysctl: net.core.somaxconn
    value: 8192
Y
cat >"$work/ansible.yml" <<'Y'
- hosts: all
  gather_facts: true
  tasks:
    - copy: {dest: /etc/profile.d/90-bench.sh, mode: "0644", content: "export BENCH_A=1\nexport BENCH_B=2\n"}
    - copy: {dest: /etc/sysctl.d/90-bench.conf, mode: "0644", content: "net.core.somaxconn=4096\nvm.zone_reclaim_mode=0\n"}
    - copy: {dest: /etc/security/limits.d/90-bench.conf, mode: "0644", content: "* hard memlock unlimited\n* soft memlock unlimited\n"}
    - shell: 'test "$(cat /proc/sys/net/core/somaxconn)" = 8192 || echo 8192 > /proc/sys/net/core/somaxconn'
      changed_when: false
    - command: cat /proc/sys/net/core/somaxconn
      register: seen
      changed_when: false
      failed_when: seen.stdout != "8192"
Y

fresh() {
    "${farm[@]}" down --dir "$work/farm" >/dev/null 2>&1 || [ ! -e "$work/farm" ]
    "${farm[@]}" up "$nodes" --dir "$work/farm" >/dev/null
    { echo "cluster: bench"; echo "ssh: { user: root, config: $work/farm/ssh_config, parallel: $nodes }"
      echo "nodes:"; sed 's/.*/  - { names: "&", playbooks: [bench] }/' "$work/farm/nodes"; } >"$work/site.yaml"
    sed 's#$# ansible_python_interpreter=/usr/bin/python3#' "$work/farm/nodes" >"$work/inventory"
    rm -rf "$work/state"
}

muster() { printf '%s\n' "$build/bin/muster" apply -q --yes -s "$work/site.yaml" --state "$work/state"; }
ansible() {
    printf '%s\n' env ANSIBLE_FORKS="$nodes" ANSIBLE_PIPELINING=true ANSIBLE_HOST_KEY_CHECKING=false \
        ANSIBLE_SSH_ARGS="-F $work/farm/ssh_config -o ControlMaster=auto -o ControlPersist=60s -o ControlPath=$work/cm-%C" \
        ansible-playbook -i "$work/inventory" "$work/ansible.yml"
}
row() { # TOOL LABEL [-m]
    local words
    mapfile -t words < <("$1")
    "${farm[@]}" ctl --dir "$work/farm" "$work/usage" ${3:-} "${words[@]}" 3>&1 |
        awk -v t="$1" -v l="$2" '{printf "%-8s %-9s %9.2f %9.2f %10.1f %s\n", t, l, $1, $2, $3 / 1024, $4 ? "FAILED" : ""}'
}

printf '%d nodes\n%-8s %-9s %9s %9s %10s\n' "$nodes" tool run "wall s" "CPU s" "memory MB"
fresh
row muster first
row muster second
row muster second -m
"${farm[@]}" ctl --dir "$work/farm" "$build/bin/muster" rollback -q --yes -s "$work/site.yaml" --state "$work/state" >/dev/null
row muster deployed
fresh
row ansible first
row ansible second
row ansible second -m
