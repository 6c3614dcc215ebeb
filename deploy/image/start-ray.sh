#!/bin/sh
# In the image as `start-ray`: Ray as a container's service.
#
#   start-ray CPUS OPTIONS OF ray start
#
# Offers CPUS to trials, or what the container may use if that is less. The password for MLflow, where there
# is one, comes from the file that TABSWEEP_TRACKING_PASSWORD_FILE names.
set -eu
cpus=$1
shift
there=$(python -c 'from tabsweep.sweeps.machine.cgroups import available_cpus; print(available_cpus())')
if [ "$cpus" -gt "$there" ]; then
    echo "start-ray: $cpus CPUs are asked for, and $there are there: $there" >&2
    cpus=$there
fi
if [ -n "${TABSWEEP_TRACKING_PASSWORD_FILE:-}" ]; then
    MLFLOW_TRACKING_PASSWORD=$(cat "$TABSWEEP_TRACKING_PASSWORD_FILE")
    export MLFLOW_TRACKING_PASSWORD
fi

# On a busy machine Ray gives a start up after 30 s: it is tried three times. What ends later ends this.
child= asked=
trap 'asked=1; kill -TERM "$child" 2> /dev/null || true' TERM INT
for attempt in 1 2 3; do
    began=$(date +%s)
    ray start --block "--num-cpus=$cpus" --disable-usage-stats "$@" &
    child=$!
    while :; do # a signal ends `wait`, not Ray
        code=0
        wait "$child" || code=$?
        kill -0 "$child" 2> /dev/null || break
    done
    [ -z "$asked" ] && [ $(($(date +%s) - began)) -lt 120 ] && [ "$code" != 0 ] || break
    echo "start-ray: Ray ended with $code (attempt $attempt)" >&2
done
exit "$code"
