#!/bin/sh
# In the image as `start-ray`: Ray as a container's service.
#
#   start-ray CPUS OPTIONS OF ray start
#
# Offers CPUS to trials, or what the machine has if that is less. The password for MLflow, where there
# is one, comes from the file that TABSWEEP_TRACKING_PASSWORD_FILE names.
set -eu
cpus=$1
shift
there=$(nproc)
if [ "$cpus" -gt "$there" ]; then
    echo "start-ray: $cpus CPUs are asked for, and $there are there: $there" >&2
    cpus=$there
fi
if [ -n "${TABSWEEP_TRACKING_PASSWORD_FILE:-}" ]; then
    MLFLOW_TRACKING_PASSWORD=$(cat "$TABSWEEP_TRACKING_PASSWORD_FILE")
    export MLFLOW_TRACKING_PASSWORD
fi
exec ray start --block "--num-cpus=$cpus" --disable-usage-stats "$@"
