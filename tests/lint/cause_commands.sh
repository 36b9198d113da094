#!/usr/bin/env bash
# Every `muster ...` that a cause tells the operator to type is a command that muster takes: the
# subcommand is there, its options are, and a word that is no option is one of its operands.
set -euo pipefail

: "${MUSTER_BIN:?set it to the directory of the built programs, as ctest does}"
muster=$MUSTER_BIN/muster

# What is wrong with one command line, on standard output; nothing when it can be typed.
wrong_with() {
    local -a words
    read -ra words <<<"$1"
    local command=${words[1]:-} help option operands
    [[ $command == --version || $command == --help ]] && return
    help=$("$muster" "$command" --help 2>/dev/null) || {
        echo "there is no command '$command'"
        return
    }
    operands=$(sed -n '1s/.*\[OPTION\]\.\.\. *//p' <<<"$help")
    local i=2 choices=${operands%% *}
    if [[ $choices == *'|'* && ${words[2]:-} != -* && "|$choices|" != *"|${words[2]:-}|"* ]]; then
        echo "'$command' does $choices, not '${words[2]:-}'"
    fi
    while ((i < ${#words[@]})); do
        option=${words[i]}
        if [[ $option == --?* ]]; then
            grep -qE -- "(^|[ ,])$option( |$)" <<<"$help" || echo "'$command' has no $option"
            grep -qE -- "(^|[ ,])$option [A-Z]" <<<"$help" && value_follows && i=$((i + 1))
        elif [[ $option == -? ]]; then
            grep -qE -- "^  $option," <<<"$help" || echo "'$command' has no $option"
            grep -qE -- "^  $option, --[a-z-]+ [A-Z]" <<<"$help" && value_follows && i=$((i + 1))
        elif [[ -z $operands ]]; then
            echo "'$command' takes no operand '$option'"
        fi
        i=$((i + 1))
    done
}

value_follows() {
    ((i + 1 < ${#words[@]})) && return 0
    echo "$option of '$command' needs a value"
    return 1
}

for bad in 'muster doctor' 'muster report publish' 'muster facts NODE' 'muster validate --resume' 'muster validate --stage pairs'; do
    if [[ -z $(wrong_with "$bad") ]]; then
        echo "self-test: '$bad' cannot be typed and must be reported"
        exit 1
    fi
done
commands=$("$muster" explain --markdown | grep -oE '`muster [^`]*`' | tr -d '`' | sort -u)
if [[ $(wc -l <<<"$commands") -lt 10 ]]; then
    echo "only these commands were found in the causes, so the search is broken: $commands"
    exit 1
fi
status=0
while IFS= read -r line; do
    while IFS= read -r fault; do
        [[ -z $fault ]] && continue
        echo "causes say \`$line\`: $fault"
        status=1
    done < <(wrong_with "$line")
done <<<"$commands"
exit $status
