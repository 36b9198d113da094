#!/usr/bin/env bash
# Habits that a search can hold: unsafe functions, swallowed failures, notes to self, buffers that a
# function returns and overwrites.  Each rule is first tried on a planted fault and on a harmless line.
set -euo pipefail

source_dir=${MUSTER_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
layers=(common fabric validate agents provision)

# rule NAME KIND PATTERN MESSAGE: KIND c searches stripped C, shell and text search as written.
rules=(
    "unsafe_copy|c|\\b(strcpy|strcat|sprintf|vsprintf|gets|strtok)[[:space:]]*\\(|has no length limit; use str_printf, strbuf or snprintf"
    "unsafe_number|c|\\b(atoi|atol|atoll|atof)[[:space:]]*\\(|takes junk for zero; use units_parse_int"
    "shell_call|c|\\b(system|popen)[[:space:]]*\\(|hands text to a shell; run an argument vector"
    "static_buffer|c|^[[:space:]]+static[[:space:]]+(_Thread_local[[:space:]]+)?(unsigned[[:space:]]+)?char[[:space:]]+[a-z_]+\\[|is a buffer that the next call overwrites; let the caller own it"
    "swallowed|shell|\\|\\|[[:space:]]*(true|:|exit[[:space:]]+0)([[:space:];)|}]|\$)|hides a failure; handle it or let it stop the script"
    "notes|text|\\b(TODO|FIXME|XXX)\\b|is a note to self; do it or describe the limit"
)

# FILE:LINE:TEXT of every line of the files named on standard input.  c: without comments and string
# contents, so that neither is taken for code; shell: without comment lines.
lines_of() {
    perl -e '
        my ($kind, $root) = @ARGV;
        while (my $file = <STDIN>) {
            chomp $file;
            open(my $in, "<", $file) or die "$file: $!\n";
            local $/;
            my $text = <$in>;
            if ($kind eq "c") {
                $text =~ s{(/\*.*?\*/)|(//[^\n]*)|("(?:\\.|[^"\\\n])*")|(\x27(?:\\.|[^\x27\\\n])*\x27)}
                 { my $m = $&; my $q = substr($m, 0, 1);
                   my $lines = ($m =~ tr/\n//);
                   ($q eq "/" ? " " : $q . $q) . ("\n" x $lines) }gse;
            }
            my ($name, $number) = (substr($file, length($root) + 1), 0);
            for my $line (split(/\n/, $text)) {
                $number++;
                $line =~ s/^\s*#.*// if $kind eq "shell";
                print "$name:$number:$line\n";
            }
        }' "$1" "$2"
}

list_files() {
    local kind=$1 root=$2 dir
    local -a dirs=()
    case $kind in
        c) for dir in "${layers[@]}"; do dirs+=("$root/$dir"); done ;;
        shell) dirs=("$root/bootstrap" "$root/.ci" "$root/tests/e2e" "$root/tests/lab" "$root/images") ;;
        text) for dir in "${layers[@]}" tests playbooks images docs .ci bootstrap; do dirs+=("$root/$dir"); done ;;
    esac
    for dir in "${dirs[@]}"; do
        [[ -e $dir ]] || continue
        case $kind in
            c) find "$dir" -type f \( -name '*.c' -o -name '*.h' \) ;;
            shell) find "$dir" -type f \( -name '*.sh' -o -name bootstrap -o -path '*/.ci/*' \) ;;
            # This file holds the words that it looks for.  mkstemp templates are not notes: XXXXXX is another word.
            text) find "$dir" -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.md' -o -name '*.yml' \
                -o -name '*.def' -o -name '*.txt' -o -name bootstrap -o -path '*/.ci/*' \) \
                ! -path '*/lint/habits.sh' ! -path '*/fuzz/corpus/*' ;;
        esac
    done
}

check_tree() {
    local root=$1 rule name kind pattern message hits bad=0 made
    made=$(mktemp -d)
    for kind in c shell text; do
        list_files "$kind" "$root" | lines_of "$kind" "$root" >"$made/$kind"
    done
    for rule in "${rules[@]}"; do
        name=${rule%%|*} rule=${rule#*|}
        kind=${rule%%|*} rule=${rule#*|}
        message=${rule##*|} pattern=${rule%|*}
        hits=$(perl -ne 'BEGIN { $p = shift } my ($f, $n, $t) = split(/:/, $_, 3);
            chomp $t; print "$f:$n: $t\n" if $t =~ /$p/' "$pattern" "$made/$kind")
        [[ -z $hits ]] && continue
        sed "s/\$/  <- $name: ${message//\//\\/}/" <<<"$hits"
        bad=1
    done
    rm -r "$made"
    return $bad
}

# plant RULE FILE TEXT: the text must be reported by that rule and by no other.
plant() {
    local dir rc=0 output
    dir=$(mktemp -d)
    mkdir -p "$(dirname "$dir/$2")"
    printf '%s\n' "$3" >"$dir/$2"
    output=$(check_tree "$dir") || rc=$?
    rm -r "$dir"
    if [[ $1 == none && $rc -eq 0 ]]; then
        return
    fi
    if [[ $1 == none || $rc -ne 1 || $output != "$2:1:"*"<- $1: "* || $output == *$'\n'* ]]; then
        echo "self-test: '$3' in $2 should give rule $1, gives (rc $rc): $output"
        exit 1
    fi
}

self_test() {
    local word
    for word in strcpy strcat sprintf vsprintf gets strtok; do
        plant unsafe_copy common/x.c "    $word(a, b);"
    done
    for word in atoi atol atoll atof; do
        plant unsafe_number agents/deep/x.c "x = $word(a);"
    done
    plant shell_call provision/x.c '    rc = system(text);'
    plant shell_call provision/x.c '    f = popen(text, "r");'
    plant static_buffer validate/x.c '    static char text[64];'
    plant static_buffer validate/x.c '    static unsigned char bytes[64];'
    plant swallowed tests/e2e/x.sh 'false || true'
    plant swallowed tests/e2e/x.sh 'x=$(false || :)'
    plant swallowed bootstrap 'apt-get update || true; echo'
    plant swallowed .ci/run 'false||true'
    plant swallowed tests/e2e/x.sh 'command -v opensm || exit 0'
    for word in TODO FIXME XXX; do
        plant notes docs/x.md "a $word: b"
    done
    plant none common/x.c '/* strcpy(a, b) || atoi(c) */ snprintf(a, n, "strcat(x)"); my_system(x);'
    plant none common/x.c '    static const char alphabet[] = "abc";'
    plant none common/x.c '    char tmp[] = "/tmp/x-XXXXXX";'
    plant none tests/e2e/x.sh '# never write || true'
    plant none tests/e2e/x.sh 'false || truetype'
    plant none tests/unit/x.c '    strcpy(a, b);'
}

command -v perl >/dev/null || {
    echo "skipped: perl is not installed"
    exit 77
}
self_test
for layer in "${layers[@]}"; do
    if [[ ! -d $source_dir/$layer ]]; then
        echo "$source_dir/$layer is missing"
        exit 1
    fi
done
check_tree "$source_dir"
