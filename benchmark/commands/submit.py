"""`bench submit`: a sweep as a job on a Ray cluster, from outside it.

The job's id holds the run's name and a number. A second submission of the same run is refused
while the first one works (by Ray itself if both arrive at the same moment); after the first one has
ended, it resumes the run.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ...common.network import is_loopback
from ...sweeps.store.run_lock import RunLocked
from ...sweeps.workers.pool import ClusterLost
from ...sweeps.workers.ray_thread import ANSWER_S, Caller
from ..console import ENVIRONMENT, INTERRUPTED, OK, Console
from ..errors import SweepError, check_name
from ..planning.option_checks import check_options
from ..planning.options import FIELDS, Options
from ..planning.own_tables import csv_run_name
from ..planning.suite import load
from ..tracking.store import has_secret, redact, through_proxy

# Seconds after which Ray kills a driver that was asked to stop: the 30 that running trials get, and
# what the driver needs to end; Ray's own default is 3.
STOP_WAIT_S = 60
NEVER_SHIPPED = ["/runs/", "/mlruns/", "/.venv/", ".git/", "__pycache__/"]


def submit_command(
    console: Console,
    sweep: click.Context,
    words: Sequence[str],
    *,
    address: str | None,
    working_dir: Path | None,
    no_wait: bool,
) -> int:
    """`bench submit`: `sweep` holds the parsed options of the sweep, `words` as they were given."""
    server = check_server(address)
    name = check_sweep(sweep, working_dir)
    if server.startswith("http:") and not is_loopback(urlsplit(server).hostname or ""):
        where = f"on the network{through_proxy(server)}"
        console.warn(f"{server} is not encrypted: Ray's token can be read {where}")
    client = connect(server)
    upload: dict[str, Any] = {}
    if working_dir is not None:  # to every node
        upload = {"working_dir": str(working_dir.resolve()), "excludes": NEVER_SHIPPED}
    with asked(server):
        job = next_id(client, name, server)
        client.submit_job(
            submission_id=job,
            entrypoint=entrypoint(words, name, sweep),
            metadata={"tabsweep_run": name},
            runtime_env={
                "env_vars": {
                    "PYTHONUNBUFFERED": "1",
                    "RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S),
                },
                **upload,
            },
        )
    follow = f"ray job logs --follow {job} --address {server}"
    stop = f"ray job stop {job} --address {server}"
    console.say(f"run {name} is job {job} of {server}\nfollow: {follow}\nstop:   {stop}")
    console.data({"run": name, "job": job, "address": server})
    if no_wait:
        return OK
    try:
        with asked(server, f"job {job} may go on ({follow}); if it does not, submit it again: "):
            info = wait_for_end(console, client, job)
    except KeyboardInterrupt:
        console.tell(f"the job goes on without this command. Follow: {follow}   Stop: {stop}")
        console.data({"run": name, "job": job, "address": server, "interrupted": True})
        return INTERRUPTED
    code = code_of(console, info)
    ended = {"status": info.status.value, "exit_code": code}
    console.data({"run": name, "job": job, "address": server, **ended})
    return code


# ---------------------------------------------------------------------- before anything is sent


def check_server(address: str | None) -> str:
    """The address of the cluster's dashboard, which takes jobs. Raises SweepError."""
    parts = urlsplit(address or "")
    try:
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        good = False
    if not good or parts.username or parts.query or parts.path.strip("/"):
        given = f", not {redact(address)[:120]!r}" if address else ""
        hint = " (ray:// is for Ray's client, which no sweep uses)" if parts.scheme == "ray" else ""
        raise SweepError(
            f"--address must be that of the cluster's dashboard, http(s)://HOST:8265{given}{hint}"
        )
    return f"{parts.scheme}://{parts.netloc}"


def check_sweep(sweep: click.Context, working_dir: Path | None) -> str:
    """The name of the run. Without a --name it follows from the suite, which is read here, in the
    folder that is shipped; all else is checked on the head. Raises what `bench sweep` raises."""
    given = Options(**{name: sweep.params[name] for name in FIELDS})
    if typed(sweep, "address"):
        raise SweepError("a submitted sweep finds its cluster itself: leave out its own --address")
    if typed(sweep, "runs") and not given.runs.is_absolute():
        raise SweepError(
            f"--runs {given.runs} must be an absolute path on the cluster's head (default: "
            "$TABSWEEP_RUNS there, or runs in the home folder)"
        )
    uri = given.tracking_uri
    if uri and typed(sweep, "tracking_uri") and has_secret(uri):
        raise SweepError(
            "a job's command line is public on the cluster: leave the secret out of "
            "--tracking-uri and give the head MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )
    if given.name is not None:
        return check_name(given.name)
    with chdir(working_dir or Path()):
        chosen = check_options(replace(given, reuse=()))  # other runs are on the head
    if chosen is None:  # a CSV has the budgets of that suite
        return f"{csv_run_name(given.csv)}-{given.on(load('uci-small')).budget}"
    return str(given.on(chosen).name)


def typed(sweep: click.Context, name: str) -> bool:
    """Was the option given on the command line, rather than by this machine's environment?"""
    source = sweep.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def entrypoint(words: Sequence[str], name: str, sweep: click.Context) -> str:
    """The command line of the job, for the head's shell."""
    options = [*words, *([] if typed(sweep, "name") else ["--name", name])]
    # A job's own folder is gone with it: its runs must not be there.
    runs = "" if typed(sweep, "runs") else ' --runs "${TABSWEEP_RUNS:-$HOME/runs}"'
    return shlex.join(["bench", "sweep", "--address", "auto", *options]) + runs


# ---------------------------------------------------------------------- the job


def connect(server: str) -> Any:
    """A client of the cluster's jobs. Raises ClusterLost."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with asked(server):
        from ray.job_submission import JobSubmissionClient

        logging.getLogger(JobSubmissionClient.__module__).setLevel(logging.WARNING)
        return JobSubmissionClient(server)


@contextmanager
def asked(server: str, what_now: str = "") -> Iterator[None]:
    """Raises ClusterLost where Ray says that its head refused or did not answer."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())[:500]
        if type(error).__name__ == "AuthenticationError":
            text = (
                "it asks for a token that was not given or is another: set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH)"
            )
        elif isinstance(error, RuntimeError) and "already exists" in text:
            raise RunLocked(
                f"the same run has just been submitted by another process: {text}"
            ) from None
        elif not isinstance(error, RuntimeError | OSError) and "aiohttp" not in repr(type(error)):
            raise
        raise ClusterLost(
            f"the cluster at {server}{through_proxy(server)}: {what_now}{text}"
        ) from None


def next_id(client: Any, name: str, server: str) -> str:
    """`tabsweep-NAME-K` for the K-th job of a run. Raises RunLocked where an earlier one works."""
    jobs = [job for job in client.list_jobs() if (job.metadata or {}).get("tabsweep_run") == name]
    for job in jobs:
        if not job.status.is_terminal():
            raise RunLocked(
                f"run {name} is being worked on as job {job.submission_id}: follow it (ray job "
                f"logs --follow {job.submission_id} --address {server}), stop it (ray job stop), "
                "or choose another --name"
            )
    numbers = [int(job.submission_id.rpartition("-")[2]) for job in jobs]
    return f"tabsweep-{name}-{max(numbers, default=0) + 1}"


def wait_for_end(console: Console, client: Any, job: str) -> Any:
    """Print what the job prints, until it ends; returns Ray's record of it. A log that hangs is
    left when the job has ended. Raises OSError where the log ends before the job does, or the head
    does not answer within ANSWER_S."""
    caller = Caller()

    async def show() -> None:
        async for text in client.tail_job_logs(job):
            if not console.quiet:
                click.echo(text, nl=False)

    async def ask(question: Callable[[str], Any]) -> Any:
        future = asyncio.wrap_future(caller.submit(lambda: question(job)))
        if not (await asyncio.wait([future], timeout=ANSWER_S))[0]:
            raise TimeoutError(f"its head has not answered for {ANSWER_S:.0f} s")
        return future.result()

    async def follow() -> Any:
        shown = asyncio.create_task(show())
        ended = 0  # looks at which the job had: its last lines may be on their way at the first
        while ended < 2 and not (await asyncio.wait([shown], timeout=ANSWER_S))[0]:
            # A head that is gone closes no stream.
            ended += (await ask(client.get_job_status)).is_terminal()
        if shown.done():
            await shown
        return await ask(client.get_job_info)

    info = asyncio.run(follow())
    if not info.status.is_terminal():
        raise ConnectionError(f"its log ended, though the job is {info.status.value}")
    return info


def code_of(console: Console, info: Any) -> int:
    """The exit code of the sweep, or what comes nearest to it where there was none."""
    status, code = info.status.value, info.driver_exit_code
    if status == "SUCCEEDED":
        return OK
    if status == "STOPPED":
        console.tell("the job was stopped; every finished trial is kept, submit it again to go on")
        return INTERRUPTED
    if code == 127:
        console.tell("there is no `bench` on the head: install tabsweep in its Ray's environment")
        return ENVIRONMENT
    if code:
        return code if code > 0 else 128 - code
    console.tell(f"the job failed: {info.message}")
    return ENVIRONMENT
