#!/usr/bin/env bash
# Every cause that muster-fabric names has its row in the one table of causes.
set -euo pipefail

source_dir=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
table=$source_dir/validate/causes.def

# The second argument of subnet_finding(), also where a table or a choice gives it.
codes() {
    sed -n '/^#include/d; s/"sm-\(check\|config\|explain\)"//g; p' "$@" |
        grep -oE '"(ib|sm|cable|node|counters|not|opensm)-[a-z-]+"' | tr -d '"' | sort -u
}

missing_from() {
    local code
    for code in $2; do
        grep -q "^CAUSE(\"$code\"," "$1" || echo "$code"
    done
}

found=$(codes "$source_dir"/fabric/subnet/*.c)
if [[ $(wc -l <<<"$found") -lt 20 ]]; then
    echo "only these causes were found in fabric/subnet, so the search is broken: $found"
    exit 1
fi
if [[ $(missing_from "$table" "cable-swapped no-such-cause") != no-such-cause ]]; then
    echo "self-test: a cause without a row must be reported, and only it"
    exit 1
fi
missing=$(missing_from "$table" "$found")
if [[ -n $missing ]]; then
    echo "without a row in validate/causes.def: $missing"
    exit 1
fi
wc -l <<<"$found"
