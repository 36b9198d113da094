#!/usr/bin/env bash
# A node that answers with lies, junk or nothing: it alone is not ready, whatever it says, and the run
# does not wait for it longer than a deadline.
. "$(dirname "$0")/lib.sh"
farm_up 4

site_write 'fabric: { kind: ethernet, interface: eth0 }
nodes: [ { names: "gpu[001-004]", playbooks: [] } ]
policy:
  require: [inventory, pairs, allreduce-cluster]
  floors: { tcp_bandwidth: 1Mb/s, allreduce_busbw: 100kB/s }
stages:
  pairs: { duration_ms: 500, content_bytes: 65536, latency_iterations: 20 }
  allreduce-cluster: { sizes_bytes: [8, 4096] }'
site=$work/site.yaml

# The agent's words pass through this on their way to the controller.
cat >"$work/liar" <<'PERL'
#!/usr/bin/perl
use strict;
use warnings;
my $mode = do { local (@ARGV, $/) = ('/root/mode'); <> };
chomp $mode;
$| = 1;
open(my $agent, '-|', '/bin/sh', '-c', $ENV{SSH_ORIGINAL_COMMAND}) or die;
while (my $line = <$agent>) {
    my $reply = $line =~ /"ok":true/;
    if ($mode eq 'facts-null' && $reply && $line =~ /"facts":/) {
        $line =~ s/"data":\{"facts":.*/"data":{"facts":null}}/;
    } elsif ($mode eq 'no-time' && $reply && $line =~ /"facts":/) {
        $line =~ s/"time":"[^"]*"/"time":"yesterday"/;
    } elsif ($mode eq 'escape' && $reply && $line =~ /^\{"v":1,"id":(\d+).*"facts":/) {
        $line = qq({"v":1,"id":$1,"ok":false,"error":{"kind":"data",)
            . qq("text":"\\u001b[2Jx\\ngpu001: connect: broken"}}\n);
    } elsif ($mode eq 'endpoint' && $line =~ /"event":"endpoint"/) {
        $line =~ s/"endpoint":\{[^}]*\}/"endpoint":"here"/;
    } elsif ($mode eq 'hang' && $line =~ /"event":"ready"/) {
        sleep 3600;
    } elsif ($mode eq 'flood' && $line =~ /"event":"evidence"/) {
        print $line while 1;
    } elsif ($mode eq 'reorder' && $line =~ /"event":"evidence"/) {
        my $next = <$agent>;
        $line = $next . $line;
    }
    print $line;
}
PERL
node_install gpu003 "$work/liar" /root/liar
muster enroll -s "$site" --yes >/dev/null 2>&1
node gpu003 sed -i 's#^#command="/root/liar" #' /root/.ssh/authorized_keys

# lie MODE: gpu003 lies like that, and a whole run looks at all nodes.
lie() {
    note "$1"
    node gpu003 sh -c "echo $1 >/root/mode"
    expect_status 1 muster validate -s "$site"
    expect_equal "$1: ready nodes" "gpu[001-002,004]" \
        "$(sed -n 's/^ready  *[0-9]*  *//p' "$work/out")"
}

lie facts-null
expect_contains "$work/err" "gpu003: facts: the agent's answer holds no facts [protocol]"
lie no-time
expect_contains "$work/out" "the clock of gpu003 was not compared with the controller's"
lie endpoint
expect_contains "$work/err" "gpu003: pairs: endpoint: must be an object [protocol]"
lie escape
expect_contains "$work/err" "gpu003: facts: ?[2Jx gpu001: connect: broken [agent-error]"
expect_lacks "$work/err" $'\e'
expect_lacks "$work/out" $'\e'
lie reorder
expect_contains "$work/out" "stands where record"
lie flood
expect_contains "$work/err" "gpu003: inventory: the agent sent more than 64 MiB of records"
lie hang
expect_contains "$work/err" "pairs: gpu003 does not come to the end of round 1"
note "truth again"
node gpu003 sh -c "echo truth >/root/mode"
expect_status 0 muster validate -s "$site"
