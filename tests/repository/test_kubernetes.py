"""The manifests of deploy/kubernetes and the override for several hosts: their structure.

What the published schemas say of them, kubeconform would know; it is not needed here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from typing import Any

import compose
import pytest
import yaml
from repo import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"


@cache
def objects() -> dict[tuple[str, str], dict[str, Any]]:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
    named = kustomization["resources"]
    assert {*named, "kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name in named:
        for one in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")):
            key = one["kind"], one["metadata"]["name"]
            assert one["apiVersion"] and key not in found
            found[key] = one
    assert found["Namespace", kustomization["namespace"]]
    return found


@cache
def groups() -> dict[str, dict[str, Any]]:
    spec = objects()["RayCluster", "tabsweep"]["spec"]
    workers = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    return {"head": spec["headGroupSpec"], **workers}


def mb(text: str) -> float:
    return float(text[:-2]) * {"Mi": 1, "Gi": 1024}[text[-2:]]


def test_the_cluster_has_a_token_scales_and_is_of_the_locked_ray() -> None:
    spec = objects()["RayCluster", "tabsweep"]["spec"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert f"\nray=={spec['rayVersion']}\n" in lock
    assert spec["authOptions"] == {"mode": "token"} and spec["enableInTreeAutoscaling"] is True
    assert set(groups()) == {"head", "cpu", "gpu"}
    assert groups()["head"]["rayStartParams"]["num-cpus"] == "0"
    for name in ("cpu", "gpu"):
        group = groups()[name]
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert groups()["cpu"]["minReplicas"] > 0  # a sweep ends where there is no worker at all


@pytest.mark.parametrize("name", ["head", "cpu", "gpu"])
def test_pods_are_confined_and_have_the_memory_that_ray_wants(name: str) -> None:
    pod = groups()[name]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]} and container["image"] == "tabsweep"
    limits = container["resources"]["limits"]
    assert limits == container["resources"]["requests"]
    assert ("nvidia.com/gpu" in limits) == (name == "gpu")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {*mounts.values()} == {*volumes} and "/tmp" in mounts
    shm = volumes[mounts["/dev/shm"]]["emptyDir"]
    assert shm["medium"] == "Memory" and mb(shm["sizeLimit"]) >= 0.3 * mb(limits["memory"])
    claims = [
        v["persistentVolumeClaim"]["claimName"]
        for v in pod["volumes"]
        if len(v) == 2 and "persistentVolumeClaim" in v
    ]
    assert claims == (["runs", "cache"] if name == "head" else [])
    assert all(objects()["PersistentVolumeClaim", claim] for claim in claims)
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert values["HOME"] == "/tmp" and values["OMP_NUM_THREADS"] == "1"
    assert not [n for n, v in values.items() if re.search("PASSWORD|TOKEN", n) and v]
    user = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "--uid 10001" in user  # the images' user


def test_kubectl_builds_the_manifests_with_the_image_and_namespace_set() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl")
    done = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert len(built) == len(objects())
    (cluster,) = [one for one in built if one["kind"] == "RayCluster"]
    image = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert image.endswith("/tabsweep:0.3.0-cuda") and cluster["metadata"]["namespace"] == "tabsweep"


class Loader(yaml.SafeLoader):
    """Knows compose's tag for what an override takes away."""


Loader.add_constructor("!reset", lambda loader, node: loader.construct_sequence(node))


def test_nodes_on_several_hosts_use_the_hosts_network_and_change_nothing_else() -> None:
    text = (ROOT / "docker-compose.hosts.yml").read_text(encoding="utf-8")
    override = yaml.load(text, Loader)["services"]
    base = compose.raw()["services"]
    assert {*override} == {"ray-head", "ray-worker", "ray-worker-gpu", "job"}
    for name, service in override.items():
        assert service["network_mode"] == "host" and service["networks"] == [], name
        assert {*service} <= {
            *("network_mode", "networks", "ports", "environment", "command", "entrypoint")
        }
        if name == "job":
            continue
        assert service["command"][:2] == base[name]["command"][:2], name
        changed = {*service["command"]} ^ {*base[name]["command"]}
        assert all(re.match("--(address|node-ip-address|dashboard-host)=", w) for w in changed)
    # Nobody outside of the machine reaches the dashboard.
    assert "--dashboard-host=127.0.0.1" in override["ray-head"]["command"]
