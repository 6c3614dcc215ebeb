#!/usr/bin/env bash
# One issue for each regression of a night: opened, kept up to date, closed when the regression is gone.
#
#   deploy/nightly-issues.sh NIGHT [ADDRESS OF THIS RUN]
#
# NIGHT/issues/ is written by `bench nightly`: each *.md is a regression, its first line the title,
# "nightly: STEP: SUBJECT", and `judged` names the steps that gave a verdict. An issue of a step that
# gave none stays as it is. Without `judged` the night did not end, which is an issue of its own.
# Needs gh, signed in, with the right to write issues; only issues with the label `nightly` are touched.
set -euo pipefail

night=${1:?the folder of a night, such as nights/latest}
address=${2:-}
unfinished="nightly: the night did not end"

gh label create nightly --color B60205 --description "Found by the nightly benchmark" --force
open=$(gh issue list --label nightly --state open --limit 500 --json number,title \
    --jq '.[] | "\(.number)\t\(.title)"')

number_of() { # TITLE: the number of the open issue with this title, or nothing
    # By the environment: awk reads backslashes in the value of a -v.
    TITLE=$1 awk -F '\t' '$2 == ENVIRON["TITLE"] { print $1; exit }' <<< "$open"
}

report() { # TITLE, body on standard input: a new issue, or the body of the one that is open
    local body number
    body=$(cat)
    [[ -z $address ]] || body+=$'\n\n'"Last seen by $address"
    number=$(number_of "$1")
    if [[ -n $number ]]; then
        gh issue edit "$number" --body-file - <<< "$body"
    else
        gh issue create --title "$1" --label nightly --body-file - <<< "$body"
    fi
}

if [[ ! -f $night/issues/judged ]]; then
    "$(dirname "${BASH_SOURCE[0]}")/nightly-summary.sh" "$night" | report "$unfinished"
    exit 0
fi

declare -A found=()
for file in "$night"/issues/*.md; do
    [[ -e $file ]] || continue # none
    title=$(head -n 1 "$file")
    found[$title]=1
    tail -n +2 "$file" | report "$title"
done

while IFS=$'\t' read -r number title; do
    [[ -n $number && -z ${found[$title]:-} ]] || continue
    step=${title#nightly: }
    step=${step%%: *}
    if [[ $title == "$unfinished" ]] || grep -qxF -- "$step" "$night/issues/judged"; then
        gh issue close "$number" --comment "Gone. ${address:+Seen by $address}"
    fi
done <<< "$open"
