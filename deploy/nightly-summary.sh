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
    echo "The log of this run says why. Started again on the same day it fits nothing twice."
fi
