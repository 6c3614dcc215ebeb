#!/usr/bin/env bash
# The issue of a red night: opened with its summary, rewritten by each red night, closed by the next that is not.
#
#   deploy/nightly-issue.sh NIGHT [ADDRESS OF THIS RUN]
#
# A night against a release has an issue of its own. A night that did not end is red. Needs gh, signed in,
# with the right to write issues; only issues with the label `nightly` are touched.
set -euo pipefail

night=${1:?the folder of a night, such as nights/latest}
address=${2:-}
title="The nightly benchmark is red"
[[ $(readlink -m "$night") != *-against-* ]] || title="The nightly benchmark against a release is red"

gh label create nightly --color B60205 --description "Found by the nightly benchmark" --force
number=$(gh issue list --label nightly --state open --limit 500 --json number,title \
    --jq ".[] | select(.title == \"$title\") | .number")
summary=$("$(dirname "${BASH_SOURCE[0]}")/nightly-summary.sh" "$night")

if [[ $summary == "## Nothing broke"* ]]; then
    [[ -z $number ]] || gh issue close "$number" --comment "Gone. ${address:+Seen by $address}"
    exit 0
fi
body=${summary:0:60000} # GitHub takes 65536 characters
[[ -z $address ]] || body+=$'\n\n'"Last seen by $address"
if [[ -n $number ]]; then
    gh issue edit "$number" --body-file - <<< "$body"
else
    gh issue create --title "$title" --label nightly --body-file - <<< "$body"
fi
