#!/usr/bin/env bash
# A lab's night: sweeps its suite with its models, compares with the night before, publishes all.
#
#   deploy/lab-night.sh OPTIONS OF bench sweep
#   deploy/lab-night.sh --suite lab.toml --model net.py:Net --address auto --tracking-uri http://mlflow:5000
#
#   LAB_NIGHTS  folder of the nights (lab-nights): runs/DATE, changes/DATE, and the page in site/
#   LAB_KEEP    nights on the page (14)
#   LAB_NIGHT   name of this night (today's date)
#
# The exit code is 4 where a model is worse than in the night before, by the decision of `bench compare`;
# else that of the sweep (1 where trials failed). Only then does it print what failed and changed: cron mails what a
# command prints (MAILTO). Started again on the same day it fits nothing twice. Run it in the folder of the
# suite and the models; BENCH names another bench than that of PATH.
set -euo pipefail

nights=${LAB_NIGHTS:-lab-nights}
night=${LAB_NIGHT:-$(date -u +%F)}
bench=${BENCH:-bench}
mkdir -p "$nights/runs" "$nights/logs"
exec 9> "$nights/.lock"
if ! flock --nonblock 9; then
    echo "lab-night.sh: another night runs in $nights" >&2
    exit 3
fi

log=$nights/logs/$night.txt
code=0
"$bench" sweep "$@" --runs "$nights/runs" --name "$night" > "$log" 2>&1 9>&- || code=$?
if ((code > 1)); then # no night: 1 has failed trials and a report
    tail -n 20 "$log"
    exit "$code"
fi

ended() { # runs of the nights that ended, by date; the folder has others, and tables of the suite's files
    find "$nights/runs" -mindepth 2 -maxdepth 2 -name report -printf '%h\n' | sort
}
before=$(ended | awk -v now="$nights/runs/$night" '$0 < now' | tail -n 1)
changes=$nights/changes/$night
if [[ -n $before ]]; then
    worse=0
    "$bench" compare "$before" "$nights/runs/$night" --fail-on-regression --out "$changes" \
        >> "$log" 2>&1 || worse=$?
    ((worse == 0)) || code=$worse
fi

mapfile -t shown < <(ended | tail -n "${LAB_KEEP:-14}")
"$bench" publish "${shown[@]}" --out "$nights/site" --title "Nights" >> "$log" 2>&1 || code=$?

if ((code)); then
    echo "Night $night ended with exit code $code; its log is $log, the page $nights/site/index.html"
    grep -E '^(failed: |error )|trials? done, ' "$log" | head -n 20 || true
    [[ ! -f $changes/compare.md ]] || sed -n '1,40p' "$changes/compare.md"
fi
exit "$code"
