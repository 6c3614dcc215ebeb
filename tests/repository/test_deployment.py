"""Deployment files: their structure, and the scripts of deploy/.

Containers themselves are in test_containers.py, jobs on a real SLURM in faults/test_outages.py.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import compose
import pytest
from calls import bench
from compose import ROOT, env_example
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ports import free_ports
from tabsweep.benchmark.planning.code_identity import computes_with
from tabsweep.sweeps.workers.trial_actor import differences

pytestmark = pytest.mark.xdist_group("ray")

SECRETS = (
    "postgres_password",
    "ray_auth_token",
    "mlflow_admin_password",
    "mlflow_secret_key",
    "mlflow_tracking_password",
)
DEVELOPMENT = {"dev", "docs"}  # extras


@cache
def services() -> dict:
    return compose.raw()["services"]


# ---------------------------------------------------------------------- the compose file


def test_ports_are_published_on_the_loopback_interface_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", [])]
    assert ports and all(str(port).startswith("127.0.0.1:") for port in ports)
    assert "ports" not in services()["postgres"]
    assert services()["postgres"]["networks"] == ["tracking"]
    assert [name for name, s in services().items() if "tracking" in s["networks"]] == [
        "postgres",
        "mlflow",
    ]
    assert compose.raw()["networks"]["tracking"]["internal"] is True


def test_every_lasting_service_says_whether_it_is_healthy_and_is_waited_for() -> None:
    for name in set(services()) - {"job"}:
        assert services()[name]["healthcheck"]["test"][0] == "CMD", name
    for service in services().values():
        for name, wait in service.get("depends_on", {}).items():
            assert wait == {"condition": "service_healthy"} and "healthcheck" in services()[name]


def test_secrets_are_files_and_nothing_that_docker_shows_has_one(tmp_path: Path) -> None:
    found = compose.raw()["secrets"]
    assert set(found) == {*SECRETS}
    files = {Path(compose.interpolate(one["file"], env_example())) for one in found.values()}
    assert {path.parent for path in files} == {Path("secrets")}
    script = ROOT / "deploy" / "secrets.sh"
    subprocess.run([script, tmp_path / "secrets"], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
    assert {*made} == {path.name for path in files} and len({*made.values()}) == len(made)
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in made.values())
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    subprocess.run([script, tmp_path / "secrets"], check=True, capture_output=True)
    assert made == {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    for name, service in services().items():
        used = {*re.findall(r"/run/secrets/(\w+)", str(service))}
        assert used == {*service.get("secrets", [])}, name
        for key, value in service["environment"].items():
            if re.search("PASSWORD|TOKEN|SECRET", key):
                assert str(value).startswith("/run/secrets/"), (name, key)
    assert not re.search(r"://[^/\s\"']+:[^/\s\"']+@", text)
    secret = re.compile("PASSWORD$|TOKEN$|SECRET|_KEY$")
    assert not [name for name in env_example() if secret.search(name)]
    ignored = (ROOT / ".gitignore").read_text() + (ROOT / ".dockerignore").read_text()
    assert "/secrets/\n" in ignored and "\nsecrets\n" in ignored


def test_every_variable_is_in_the_example_with_the_same_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert not re.findall(r"(?<!\$)\$(?![{$])\w+|\$\{\w+\}", text)  # one that may be unset
    found = dict(re.findall(r"\$\{(\w+):-([^${}]*)\}", text))
    nested = set(re.findall(r"\$\{(\w+):-\$\{", text))
    example = env_example()
    assert {*found, *nested} == set(example)
    assert {name: example[name] for name in found} == found
    assert all(example[name] == "" for name in nested)


def test_the_driver_on_the_head_takes_the_workers_of_each_profile_for_its_own_release() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    release = lock.partition("\ntorch==")[2].split()[0]
    builds = {"cpu": f"{release}+cpu", "cuda": release}  # as deploy/image/install.sh gets them
    nodes = {n: s["build"]["args"]["DEVICE"] for n, s in services().items() if "ray-" in n}
    has = {n: {**computes_with([], []), "torch": builds[device]} for n, device in nodes.items()}
    head = has.pop("ray-head")
    assert len(has) == 2 and not any(differences(head, worker) for worker in has.values())
    assert differences(head, {**head, "torch": "2.6.0"})


@pytest.mark.locked
def test_the_image_leaves_out_what_only_development_needs() -> None:
    """Of requirements.lock, all but what the package and its extras for users ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(r for n, rs in extras.items() if n not in DEVELOPMENT for r in rs),
    ]
    todo: list[tuple[str, tuple[str, ...]]] = [(text, ()) for text in wanted]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        text, asked = todo.pop()
        one = Requirement(text)
        if one.marker and not any(one.marker.evaluate({"extra": e}) for e in asked or ("",)):
            continue
        key = canonicalize_name(one.name), frozenset(one.extras)
        if key not in seen:
            seen.add(key)
            with suppress(metadata.PackageNotFoundError):  # for another kind of machine
                needs = metadata.requires(one.name) or []
                todo += [(more, tuple(one.extras)) for more in needs]
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    listed = (ROOT / "deploy" / "image" / "development.txt").read_text(encoding="utf-8")
    left_out = {line for line in listed.splitlines() if not line.startswith("#")}
    assert left_out == {n for n in locked if canonicalize_name(n) not in {name for name, _ in seen}}


def test_the_job_submits_a_sweep_whose_options_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    job = services()["job"]
    words = [*job["entrypoint"], *job["command"]]
    assert words[:3] == ["tini", "--", "bench"]
    monkeypatch.delenv("TABSWEEP_TRACKING_URI", raising=False)
    (port,) = free_ports(1)
    words = [word.replace("ray-head:8265", f"127.0.0.1:{port}") for word in words[3:]]
    found = bench(*words)
    assert found.code == 3 and f"127.0.0.1:{port}" in found.err, found


# ---------------------------------------------------------------------- SLURM

SLURM = ROOT / "deploy" / "slurm.sh"


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a job on two nodes, with a user's environment activated."""
    for name in ("srun", "scontrol", "squeue"):  # looked for, not called before the refusals
        (tmp_path / name).symlink_to("/bin/true")
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(compose.FOREIGN)},
        "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "node1,node2",
    }


@pytest.mark.parametrize(
    ("change", "words", "complaint"),
    [
        ({"SLURM_JOB_ID": ""}, [], "run it with sbatch"),
        ({"PATH": "/usr/bin:/bin"}, [], "no bench on the PATH"),
        ({}, ["--address", "auto"], "--address"),
        ({"RAY_AUTH_TOKEN_PATH": "{token}"}, [], "others may read"),
    ],
    ids=["outside SLURM", "no environment", "another address", "a token for all to read"],
)
def test_the_slurm_script_refuses_what_cannot_work(
    slurm: dict[str, str], tmp_path: Path, change: dict[str, str], words: list[str], complaint: str
) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef" * 2)
    token.chmod(0o644)
    values = {k: v.format(token=token) for k, v in change.items()}
    done = subprocess.run(
        [SLURM, *words], env={**slurm, **values}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and complaint in done.stderr
    assert not list(Path("/tmp").glob(f"ray-{os.getpid()}-*"))


def test_a_command_in_a_container_has_the_password_of_its_file(tmp_path: Path) -> None:
    """`docker compose exec` does not pass through start-ray."""
    (tmp_path / "password").write_text("it's\n")
    program = (
        "import os; from tabsweep.common.network import password_from_file; password_from_file(); "
        "print(os.environ['MLFLOW_TRACKING_PASSWORD'])"
    )
    env = {**os.environ, "TABSWEEP_TRACKING_PASSWORD_FILE": str(tmp_path / "password")}
    env.pop("MLFLOW_TRACKING_PASSWORD", None)
    run = [sys.executable, "-c", program]
    assert subprocess.check_output(run, env=env, text=True) == "it's\n"
    env["TABSWEEP_TRACKING_PASSWORD_FILE"] = str(tmp_path / "nowhere")
    done = subprocess.run(
        [Path(sys.executable).with_name("bench"), "suites"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 2 and "TABSWEEP_TRACKING_PASSWORD_FILE" in done.stderr
