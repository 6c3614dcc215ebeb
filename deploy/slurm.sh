#!/usr/bin/env bash
# A sweep on the nodes of a SLURM job: a Ray head on the first one, Ray workers on the others.
#
#   sbatch --nodes=4 --cpus-per-task=32 --gpus-per-node=2 --time=8:00:00 \
#       deploy/slurm.sh --suite uci-small --budget standard --runs "$HOME/runs"
#
# The options are those of `bench sweep`. Every node must have the same tabsweep; it is found on the
# PATH of the shell that calls sbatch. Before its time limit, and when its grace time begins that a
# preemption gives, a job lets running trials end, saves and requeues itself; one that is cancelled
# does the same without requeueing. The same command, by hand or by requeueing, resumes the run.
#
# SLURM tells the steps of a job of a preemption, not its script: a step of its own on the first node
# hears it for the script. And it sends SIGTERM to every process, so Ray's are started with SIGTERM
# blocked: the driver alone hears it, while Ray and the running trials go on until it has saved.
#
# Only this job can use its Ray cluster: a token is made for it, unless RAY_AUTH_TOKEN is set or
# RAY_AUTH_TOKEN_PATH names a file with one, readable by you alone. There is no dashboard.
#
#   TABSWEEP_HEAD_ADDRESS  the head's address, if its host name resolves to the wrong network
#   TABSWEEP_GRACE_S       seconds that running trials may take to end after a signal (20)
#
#SBATCH --job-name=tabsweep
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -euo pipefail
umask 077

fail() {
    echo "slurm.sh: $1" >&2
    exit 2
}

[[ -n ${SLURM_JOB_ID:-} && -n ${SLURM_JOB_NODELIST:-} ]] || fail "run it with sbatch: it needs SLURM's nodes"
for program in bench ray python squeue srun scontrol; do
    command -v "$program" > /dev/null || fail "no $program on the PATH: activate tabsweep's environment before sbatch"
done
for option in "$@"; do
    [[ $option != --address* ]] || fail "--address is set by this script and cannot be given"
done

# ---------------------------------------------------------------------- who may join

export RAY_AUTH_MODE=token
if [[ -n ${RAY_AUTH_TOKEN_PATH:-} ]]; then
    [[ -r $RAY_AUTH_TOKEN_PATH ]] || fail "cannot read $RAY_AUTH_TOKEN_PATH"
    mode=$(stat --dereference --format=%a "$RAY_AUTH_TOKEN_PATH")
    [[ $mode == [46]00 ]] || fail "others may read $RAY_AUTH_TOKEN_PATH (mode $mode): chmod 600 it"
elif [[ -z ${RAY_AUTH_TOKEN:-} ]]; then
    RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    export RAY_AUTH_TOKEN # srun hands it to the other nodes; it is on no command line
fi

# ---------------------------------------------------------------------- one node

# `node HEAD-OR-ADDRESS OPTIONS...` is Ray on this node, with what SLURM gave here, until SIGUSR1
# ends it; what Ray left in its folder goes with it. Runs on every node, so it stands alone.
node() {
    local cpus=${SLURM_CPUS_ON_NODE:-1} gpus=${SLURM_GPUS_ON_NODE:-0} options=()
    local mb=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * cpus))}
    ((mb == 0)) || options+=(
        "--memory=$((mb * 75 / 100 * 1048576))" "--object-store-memory=$((mb * 15 / 100 * 1048576))"
    )
    export OMP_NUM_THREADS=1 RAY_worker_niceness=0 RAY_TMPDIR=$2
    local ray= ended= attempt code blocked='import signal, sys
def end(_, frame):
    signal.alarm(1)  # comes again after a second: Python drops what a callback of a fork raises
    if frame.f_globals["__name__"] != "logging":  # logging has such callbacks
        sys.exit(130)
try:
    for number in signal.SIGALRM, signal.SIGINT:  # the shell took the second from it
        signal.signal(number, end)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    from ray.scripts.scripts import cli
    from tabsweep.sweeps.workers.ray_private import fewer_parts
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with fewer_parts():  # its agents, for which Ray waits 15 s, may start late on a busy machine
        cli(prog_name="ray")
finally:  # a busy machine ends Python slowly, and its end takes the handlers away
    signal.signal(signal.SIGALRM, signal.SIG_IGN)'
    trap : TERM
    trap 'ended=1; kill -INT $ray 2> /dev/null || true' USR1
    for attempt in 1 2 3; do # on a busy machine Ray gives a start up after 30 s
        python -c "$blocked" start --block "$1" "--num-cpus=$cpus" "--num-gpus=$gpus" \
            --disable-usage-stats "${options[@]}" "${@:3}" &
        ray=$!
        [[ -z $ended ]] || kill -INT $ray
        while :; do # a signal ends `wait`, not Ray
            code=0
            wait $ray || code=$?
            kill -0 $ray 2> /dev/null || break
        done
        ((code == 0)) || sleep 1 # what ended Ray may be on its way here, too
        [[ -z $ended && $code != 0 ]] || break
        echo "slurm.sh: Ray on $(hostname) ended with $code (attempt $attempt)" >&2
    done
    [[ -z $ended ]] || rm -rf "$2"
    return $code
}

# ---------------------------------------------------------------------- all of them

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# Short, for the names of Ray's sockets are limited; another one after each requeueing.
folder=/tmp/ray-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
read -r port client_port address < <(python -c '
import socket, ray
taken = [socket.create_server(("", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in taken), ray.util.get_node_ip_address())')
address=${TABSWEEP_HEAD_ADDRESS:-$address}

started=()
sweep=
watch=
signalled=
timer=
requeue=
preempted=
cancelled=
stop() { # the sweep ends in order: running trials may end, then no longer
    signalled=1
    [[ -n $sweep ]] || exit 130
    [[ -z $timer ]] || return 0
    kill -TERM "$sweep" 2> /dev/null || return 0
    (
        sleep "${TABSWEEP_GRACE_S:-20}"
        kill -INT "$sweep" 2> /dev/null || true
    ) &
    timer=$!
}
end() {
    local code=$?
    trap '' USR1 USR2
    trap 'cancelled=1' TERM
    [[ -z $timer ]] || kill "$timer" 2> /dev/null || true
    [[ -z $watch ]] || kill "$watch" 2> /dev/null || true
    ((${#started[@]} == 0)) || kill -USR1 "${started[@]}" 2> /dev/null || true
    local waited=0
    while ((waited++ < 150)) && ((${#started[@]})) && kill -0 "${started[@]}" 2> /dev/null; do
        sleep 0.2
    done
    ((${#started[@]} == 0)) || kill -KILL "${started[@]}" 2> /dev/null || true
    rm -rf "$folder"
    # A preempted job whose Ray was lost while it stopped ended with 3: it was interrupted, too.
    ((code == 130 || code == 143 || (code == 3 && ${preempted:-0}))) || requeue=
    if [[ $requeue == preempted ]]; then # `scancel` signals the steps, too, and the script with them
        sleep 1
        [[ -z $cancelled && $(squeue --noheader --job="$SLURM_JOB_ID" --format=%T) == RUNNING ]] || requeue=
    fi
    if [[ -n $requeue ]]; then
        echo "tabsweep: ${requeue}; into the queue again"
        scontrol requeue "$SLURM_JOB_ID"
    fi
    exit $code
}
trap end EXIT
# At the end of a grace time SLURM requeues the job itself, and a cancelled one is over.
trap 'cancelled=1; stop' TERM
trap 'requeue="out of time"; stop' USR1
trap 'preempted=1 requeue=${requeue:-preempted}; stop' USR2

# A shell that ends with 3 on the SIGTERM that SLURM sends to steps.
(
    srun --overlap --quiet --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" bash -c \
        'trap "kill %1; exit 3" TERM; sleep infinity & wait' 2> /dev/null &
    step=$! code=0
    trap 'kill $step' TERM
    wait $step || code=$?
    ((code != 3)) || kill -USR2 $$
) &
watch=$!

echo "tabsweep: head ${nodes[0]} ($address:$port), ${#nodes[@]} nodes"
node --head "$folder" "--port=$port" "--node-ip-address=$address" \
    "--ray-client-server-port=$client_port" --include-dashboard=false &
started+=($!)
waited=0
until ray health-check --address "$address:$port" > /dev/null 2>&1; do
    ((waited++ < 120)) && kill -0 "${started[0]}" 2> /dev/null || fail "Ray's head did not come up"
    sleep 1
done
for name in "${nodes[@]:1}"; do # a step for each: the loss of one node is not the loss of all
    srun --nodes=1 --ntasks=1 --nodelist="$name" --export=ALL bash -c \
        "$(declare -f node); umask 077; node --address=$address:$port $folder" &
    started+=($!)
done

bench sweep --address "$address:$port" "$@" &
sweep=$!
while :; do # a signal ends `wait`, not the sweep
    code=0 signalled=
    wait "$sweep" || code=$?
    [[ -n $signalled ]] || break
done
exit "$code"
