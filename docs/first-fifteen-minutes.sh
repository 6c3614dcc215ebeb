#!/usr/bin/env bash
# A newcomer's first fifteen minutes, from README alone: the first table, an own table, an own model, an own
# dataset, the page, MLflow, the library. Prints each command with its seconds; ends at the first that fails.
#
#   docs/first-fifteen-minutes.sh [FOLDER]       in a checkout; FOLDER (default: a new one in /tmp) gets the files
#
# SMALL: options that make each sweep small; SMALL= (empty) runs them as README has them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${1:-$(mktemp -d)}
small=${SMALL---folds 1 --trials 2}
began=$SECONDS
mkdir -p "$folder"
export TABSWEEP_RUNS=$folder/runs TABSWEEP_DATA=$folder/added

step() { # step WORDS...: show the command, run it, show its seconds
    local start=$SECONDS
    echo
    echo "\$ $*"
    "$@"
    echo "# $((SECONDS - start)) s"
}

echo "# the first table"
cd "$root"
step make sweep ARGS="--dataset iris --dataset diabetes --model knn --model linear --model catboost $small"
export PATH=$root/.venv/bin:$PATH # "After make, the command bench is .venv/bin/bench"
cd "$folder"
step bench status runs/uci-small-quick
step bench explain scores iris knn --run runs/uci-small-quick

echo "# the page"
step test -s runs/uci-small-quick/report/html/index.html
step head -n 12 runs/uci-small-quick/report/ranks.md

echo "# your own table"
awk 'BEGIN { srand(1); print "id,area,rooms,heating,price"
    for (i = 1; i <= 120; i++) { area = 40 + int(160 * rand()); rooms = 1 + int(6 * rand())
        heat = rand() < .5 ? "gas" : "heat pump"
        print 5000 + i "," area "," rooms "," heat "," 2500 * area + 8000 * rooms + int(20000 * rand()) } }' > houses.csv
cut -d, -f1-4 houses.csv | head -n 6 > new_houses.csv
step bench data inspect houses.csv --target price
# shellcheck disable=SC2086  # words on purpose
step bench sweep --csv houses.csv --target price --drop id --model linear --model lightgbm $small
step bench fit runs/csv-houses-quick --out houses.tabsweep
step bench predict houses.tabsweep new_houses.csv --out prices.csv
step cat prices.csv

echo "# your own model"
sed -n '/^import pandas as pd/,/^```/p' "$root/README.md" | sed '/^```/d' > mymodel.py
step test -s mymodel.py
# shellcheck disable=SC2086
step bench sweep --suite uci-small --model mymodel.py:MyModel --model catboost --dataset iris --name mine $small

echo "# your own dataset"
step bench data add houses.csv --target price --drop id
sed -n '/^name = "mine"/,/^```/p' "$root/README.md" | sed '/^```/d' > mine.toml
# shellcheck disable=SC2086
step bench sweep --suite mine.toml $small

echo "# MLflow"
echo
echo "\$ bench ui runs/uci-small-quick --port 5731   # until its page answers"
start=$SECONDS
bench ui runs/uci-small-quick --port 5731 > ui.log 2>&1 &
server=$!
trap 'kill "$server" 2> /dev/null' EXIT
python - <<'PY'
import time, urllib.request

for _ in range(1200):  # ten minutes, for a busy machine
    try:
        page = urllib.request.urlopen("http://127.0.0.1:5731/", timeout=5)
        print("answer", page.status)
        break
    except OSError:
        time.sleep(0.5)
else:
    raise SystemExit("MLflow did not answer: see ui.log")
PY
kill "$server" && wait "$server" # what was started in the background ignores Ctrl-C; it ends its server
trap - EXIT
echo "# $((SECONDS - start)) s"

echo "# the library"
python - "$root/README.md" <<'PY' > library.py
import re, sys

text = open(sys.argv[1], encoding="utf-8").read()
blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
print(next(block for block in blocks if block.startswith("import tabsweep")))
PY
step python -W ignore library.py

echo
echo "# all of it: $((SECONDS - began)) s, in $folder"
