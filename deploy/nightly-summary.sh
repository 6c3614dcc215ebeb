#!/usr/bin/env bash
# Prints the summary of a night in Markdown, or that the night did not end.
#
#   deploy/nightly-summary.sh NIGHT
set -euo pipefail

night=${1:?the folder of a night, such as nights/latest}
if [[ -f $night/summary.md ]]; then
    cat "$night/summary.md"
else
    echo "## The night did not end"
    echo
    if compgen -G "$night/steps/*.json" > /dev/null; then
        echo "Steps that ended; the next night of the same day and commit continues behind them:"
        echo
        for step in "$night"/steps/*.json; do
            name=${step##*/}
            echo "* ${name%.json}"
        done
    else
        echo "No step ended: the log of this run says why."
    fi
fi
