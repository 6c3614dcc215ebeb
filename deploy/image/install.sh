# Inside the build of the Dockerfile: the runtime's part of requirements.lock into /opt/tabsweep.
#
#   install.sh cpu|cuda INDEX-FOR-TORCH
#
# For cpu exactly the lock's versions and nothing that they ask for besides: the lock has all of it, and
# what else torch and XGBoost name is for GPUs.
set -eu
device=$1 index=$2
pip=/opt/tabsweep/bin/pip

case $device in
    cpu | cuda) ;;
    *) echo "install.sh: DEVICE is $device, not cpu or cuda" >&2; exit 2 ;;
esac

[ "$device" != cpu ] || [ -n "$index" ] || index=https://download.pytorch.org/whl/cpu
[ "$index" != none ] || index=
grep -v '^#' development.txt | sed 's/$/==/' > left-out
[ "$device" != cpu ] || echo nvidia- >> left-out
sed 's/^/^/' left-out > patterns
grep -v -f patterns requirements.lock > runtime.lock

set -- --requirement runtime.lock
[ "$device" != cpu ] || set -- --no-deps "$@"
[ -z "$index" ] || set -- --extra-index-url "$index" "$@"
"$pip" install "$@"
# torch's version is asked first: one for CUDA cannot even be imported here, with another message.
/opt/tabsweep/bin/python -c "
import importlib.util, pathlib, runpy
version = pathlib.Path(importlib.util.find_spec('torch').origin).with_name('version.py')
if '$device' != 'cuda' and runpy.run_path(str(version))['cuda'] is not None:
    raise SystemExit('install.sh: torch has CUDA: TORCH_INDEX_URL must be an index of wheels for CPUs')
import catboost, lightgbm, mlflow, ray, sklearn, torch, xgboost"
