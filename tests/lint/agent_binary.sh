#!/usr/bin/env bash
# What a bare node must have to run the programs that are put on it: the C library, no newer than
# GLIBC_2.34 (Ubuntu 22.04, RHEL 9, Amazon Linux 2023), and nothing else.  Read off the binaries.
set -euo pipefail

bin=${MUSTER_BIN:?directory of the built programs}
programs=(muster-agent muster-gate)
newest=2.34
# The loader's name depends on the architecture; the others are one library in glibc 2.34.
allowed='^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-.*\.so\.[0-9]+)$'

skip() {
    echo "skipped: $1"
    exit 77
}

for tool in readelf objdump; do
    command -v "$tool" >/dev/null || skip "$tool is missing (binutils)"
done
for program in "${programs[@]}"; do
    [[ -x $bin/$program ]] || skip "$bin/$program is not built"
    if readelf -sW "$bin/$program" | grep -qE '__(asan|tsan|msan|ubsan)_'; then
        skip "$program is built with a sanitizer, which brings its own libraries"
    fi
done

# needed FILE: names of the shared libraries that the loader must find.
needed() {
    readelf -dW "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'
}

# versions FILE: "VERSION SYMBOL" for each symbol that glibc must have.
versions() {
    objdump -T "$1" | sed -nE 's/.*[( ]GLIBC_([0-9.]+)\)? +([^ ]+)$/\1 \2/p'
}

# newer FILE: the symbols among them that need a glibc above the limit, and private ones.
newer() {
    versions "$1" | while read -r version symbol; do
        if [[ $(printf '%s\n%s\n' "$version" "$newest" | sort -V | tail -n 1) != "$newest" ]]; then
            echo "$symbol needs GLIBC_$version"
        fi
    done
}

bad=0
for program in "${programs[@]}"; do
    file=$bin/$program
    libraries=$(needed "$file")
    count=$(versions "$file" | wc -l)
    if [[ $libraries != *libc.so.6* || $count -lt 1 ]]; then
        echo "$program: cannot read its needs (libraries '$libraries', $count symbols of glibc)"
        bad=1
        continue
    fi
    while IFS= read -r library; do
        if [[ ! $library =~ $allowed ]]; then
            echo "$program: needs $library, which a bare node may not have; link it statically"
            bad=1
        fi
    done <<<"$libraries"
    while IFS= read -r symbol; do
        echo "$program: $symbol, newer than GLIBC_$newest"
        bad=1
    done < <(newer "$file")
    if objdump -T "$file" | grep -q 'GLIBC_PRIVATE\|GLIBC_ABI'; then
        echo "$program: uses a private or ABI-marked symbol of glibc"
        bad=1
    fi
    highest=$(versions "$file" | cut -d' ' -f1 | sort -V | tail -n 1)
    echo "$program: $(stat -c %s "$file") bytes, libraries ${libraries//$'\n'/ }, up to GLIBC_$highest"
done
exit $bad
