# Inside the build of the Dockerfile: the runtime's part of requirements.lock into /opt/tabsweep.
#
#   install.sh cpu|cuda INDEX-FOR-TORCH
#
# For cpu exactly the lock's versions and nothing that they ask for besides: the lock has all of it, and
# what else torch and XGBoost name is for GPUs.
set -eu
device=$1 index=$2
pip=/opt/tabsweep/bin/pip

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
/opt/tabsweep/bin/python -c "
import catboost, lightgbm, mlflow, ray, sklearn, torch, xgboost
assert '$device' == 'cuda' or torch.version.cuda is None, 'torch has CUDA: give TORCH_INDEX_URL'"
