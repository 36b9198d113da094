#!/usr/bin/env bash
# A node whose clock is off: that node alone is not ready, and the text says by how much.
. "$(dirname "$0")/lib.sh"
command -v cc >/dev/null || skip "no C compiler to build a clock that is off"
farm_up 3
site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes:
  - { names: "gpu[001-003]", playbooks: [] }
policy: { require: [inventory], max_clock_skew: 5s }'

cat >"$work/clock.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    int (*next)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = next(id, t);
    if (rc == 0 && id == CLOCK_REALTIME)
        t->tv_sec += OFFSET;
    return rc;
}
C

clock_off() { # NODE SECONDS
    cc -shared -fPIC -DOFFSET="$2" -o "$work/clock.so" "$work/clock.c" -ldl || fail "the clock does not compile"
    node_install "$1" "$work/clock.so" /usr/lib/clock-off.so
    node "$1" sh -c 'echo /usr/lib/clock-off.so > /etc/ld.so.preload'
}

expect_status 0 muster validate -s "$work/site.yaml" --stages inventory

note "five minutes ahead"
clock_off gpu002 300
expect_status 1 muster validate -s "$work/site.yaml" --stages inventory
expect_contains "$work/err" "gpu002: facts: the clock is "
expect_contains "$work/err" "s ahead of the controller's (limit 5.0 s)"
expect_contains "$work/out" "clock-skew"
expect_equal "ready nodes" "gpu[001,003]" "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"

note "an hour behind"
clock_off gpu002 -3600
expect_status 1 muster validate -s "$work/site.yaml" --stages inventory
expect_contains "$work/err" "s behind the controller's"
expect_equal "ready nodes" "gpu[001,003]" "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"

note "set right"
node gpu002 rm /etc/ld.so.preload
expect_status 0 muster validate -s "$work/site.yaml" --stages inventory
