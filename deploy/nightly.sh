#!/usr/bin/env bash
# A night of the benchmark in this checkout: `bench nightly` with these options, as cron runs it.
#
#   deploy/nightly.sh [OPTIONS OF bench nightly]
#
#   TABSWEEP_NIGHTS          folder of the nights (nights); its link `latest` leads to this night
#   TABSWEEP_NIGHTS_KEEP     days that a night's folder is kept (30)
#   TABSWEEP_NIGHTLY_DRIFT   not empty: compare every model with the last tag (--against)
#
# The exit code is that of `bench nightly`: 0, or 4 for a regression or a step that could not judge;
# or that of the command before it that failed; 143 where the night was told to stop. Where it is not 0,
# the summary is printed at the end, whatever failed or was stopped.
# A second night at the same time ends at once with 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

nights=${TABSWEEP_NIGHTS:-nights}
nights=${nights%/}
bench=${VENV:-.venv}/bin/bench
options=(--out "$nights" "$@")
mkdir -p "$nights"

exec 9> "$nights/.lock"
if ! flock --nonblock 9; then
    echo "nightly.sh: another night runs in $nights" >&2
    exit 3
fi

started=$(mktemp)
child= # the command that runs

run() { # COMMAND: in the background, for the shell answers a signal while it waits, not before
    local code=0
    "$@" 9>&- &
    child=$!
    wait "$child" || code=$?
    child=
    return "$code"
}

finish() {
    local code=$? newest
    trap - EXIT
    trap : TERM INT # asked to stop already
    set +e
    if [[ -n $child ]]; then # it lets its running fits end
        kill "$child" 2> /dev/null
        while kill -0 "$child" 2> /dev/null; do wait "$child"; done
    fi
    newest=$(find "$nights" -mindepth 2 -maxdepth 3 -path "$nights/20*" -name '*.json' \
        -newer "$started" -printf '%T@ %P\n' | sort -n | tail -n 1)
    if [[ -n $newest ]]; then
        newest=${newest#* }
        ln -sfn "${newest%%/*}" "$nights/latest"
    fi
    rm -f "$started"
    find "$nights" -mindepth 1 -maxdepth 1 -type d \
        \( -name '20??-??-??-*' -o -name 'accepted-*' \) \
        -mtime "+${TABSWEEP_NIGHTS_KEEP:-30}" -exec rm -rf {} +
    ((code == 0)) || deploy/nightly-summary.sh "$nights/latest"
    exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# Whatever fails from here on: `latest` never shows an older night as this one's result.
rm -f "$nights/latest"
run make --no-print-directory setup
if [[ -n ${TABSWEEP_NIGHTLY_DRIFT:-} ]]; then
    if tag=$(git describe --tags --abbrev=0 2> /dev/null); then
        options+=(--against "$tag")
    else
        echo "nightly.sh: no tag to compare with; a night against the accepted baseline" >&2
    fi
fi

run "$bench" nightly "${options[@]}"
