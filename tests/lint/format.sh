#!/usr/bin/env bash
# Every C file is as clang-format 14 leaves it.  Other versions break lines elsewhere, so only 14 counts.
set -euo pipefail

source_dir=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
wanted=14
tool=""

for candidate in "clang-format-$wanted" clang-format; do
    if command -v "$candidate" >/dev/null && [[ $("$candidate" --version) =~ version\ $wanted\. ]]; then
        tool=$candidate
        break
    fi
done
if [[ -z $tool ]]; then
    echo "skipped: clang-format $wanted is not installed"
    exit 77
fi

cd "$source_dir"
mapfile -d '' files < <(find common fabric validate agents provision tests -type f \
    \( -name '*.c' -o -name '*.h' \) -print0 | sort -z)
if ((${#files[@]} == 0)); then
    echo "no C file found below $source_dir"
    exit 1
fi

# A file that is badly formatted must be refused, else the lint itself is broken.
if printf 'int  main( void ){return 0;}\n' | "$tool" --dry-run -Werror --assume-filename=common/x.c 2>/dev/null; then
    echo "self-test: $tool accepts a badly formatted file"
    exit 1
fi

"$tool" --dry-run -Werror "${files[@]}"
echo "${#files[@]} files"
