#!/usr/bin/env bash
# The layers may include only downward: common < fabric, validate < agents, provision.
# First a tree with planted faults is checked, so that a lint that finds nothing cannot pass.
set -euo pipefail

source_dir=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}

# Which layers each layer may include.
declare -A allowed=(
    [common]="common"
    [fabric]="common fabric"
    [validate]="common validate"
    [agents]="common fabric validate agents"
    [provision]="common validate provision"
)

# Prints one line per include against the order; returns 1 if there was one, 2 if no file was seen.
check_tree() {
    local root=$1 layer file line target seen=0 bad=0
    for layer in "${!allowed[@]}"; do
        [[ -d $root/$layer ]] || continue
        while IFS= read -r -d '' file; do
            seen=$((seen + 1))
            while IFS= read -r line; do
                target=$(sed -E 's/^[0-9]+:[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]*)".*/\1/' <<<"$line")
                check_include "$root" "$layer" "$file" "${line%%:*}" "$target" || bad=1
            done < <(sed -nE '/^[[:space:]]*#[[:space:]]*include[[:space:]]*"/{=;p}' "$file" |
                paste -d: - -)
        done < <(find "$root/$layer" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' \) -print0)
    done
    ((seen > 0)) || return 2
    return $bad
}

check_include() {
    local root=$1 layer=$2 file=$3 line=$4 target=$5 top allowed_layer
    case $target in
        *..*)
            echo "${file#"$root"/}:$line: include \"$target\" climbs with '..'; write the path from the top"
            return 1
            ;;
    esac
    top=${target%%/*}
    for allowed_layer in ${allowed[$layer]}; do
        [[ $top == "$allowed_layer" && $target == */* ]] && return 0
    done
    if [[ $target != */* || -z ${allowed[$top]+set} ]]; then
        echo "${file#"$root"/}:$line: include \"$target\" does not name a layer; write the path from the top"
    else
        echo "${file#"$root"/}:$line: $layer must not include \"$target\" (allowed: ${allowed[$layer]})"
    fi
    return 1
}

# Each planted include must be found, alone; the good tree must pass.
self_test() {
    local dir output rc include
    local -a planted=(
        'common:fabric/x.h' 'common:validate/x.h' 'common:agents/x.h' 'common:provision/x.h'
        'fabric:validate/x.h' 'fabric:agents/x.h' 'fabric:provision/x.h'
        'validate:fabric/x.h' 'validate:agents/x.h' 'validate:provision/x.h'
        'agents:provision/x.h' 'provision:fabric/x.h' 'provision:agents/x.h'
        'common:../fabric/x.h' 'common:x.h' 'common:tests/x.h'
    )
    dir=$(mktemp -d)
    mkdir -p "$dir"/{common,fabric,validate,agents/deep,provision}
    printf '#include "common/a.h"\n#include <fabric/x.h>\n' >"$dir/common/good.c"
    printf '#include "fabric/a.h"\n' >"$dir/agents/deep/good.c"
    if ! output=$(check_tree "$dir"); then
        echo "self-test: a good tree was refused: $output"
        exit 1
    fi
    for include in "${planted[@]}"; do
        printf '\n  #  include  "%s"\n' "${include#*:}" >"$dir/${include%%:*}/bad.h"
        rc=0
        output=$(check_tree "$dir") || rc=$?
        rm "$dir/${include%%:*}/bad.h"
        if [[ $rc -ne 1 || $output != "${include%%:*}/bad.h:2: "* || $output == *$'\n'* ]]; then
            echo "self-test: the planted include $include was not reported (rc $rc): $output"
            exit 1
        fi
    done
    rm -r "$dir"
}

self_test
rc=0
check_tree "$source_dir" || rc=$?
if ((rc == 2)); then
    echo "no source file found below $source_dir"
    exit 1
fi
exit $rc
