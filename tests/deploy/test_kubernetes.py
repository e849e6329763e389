"""The manifests against Kubernetes' own schemas, and against what a schema cannot know: what refers to what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
VERSIONS = ("1.30", kubernetes_validate.latest_version())
Manifest = dict[str, Any]


def manifests() -> list[Manifest]:
    """Every document of every file."""
    return [found for path in FILES for found in yaml.safe_load_all(path.read_text()) if found is not None]


def label(manifest: Manifest) -> str:
    """For the name of a test."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def of_kind(*kinds: str) -> dict[str, Manifest]:
    """By name."""
    return {m["metadata"]["name"]: m for m in manifests() if m["kind"] in kinds}


WORKLOADS = of_kind("StatefulSet", "Job")


def pod(workload: Manifest) -> Manifest:
    """Its pods' spec."""
    found: Manifest = workload["spec"]["template"]["spec"]
    return found


def containers(workload: Manifest) -> Iterator[Manifest]:
    """All of them, those that run first too."""
    yield from (*pod(workload).get("initContainers", ()), *pod(workload)["containers"])


def selects(selector: Mapping[str, str], workload: Manifest) -> bool:
    """Whether a selector's labels are all on the workload's pods."""
    return bool(selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", manifests(), ids=label)
def test_each_fits_its_schema(manifest: Manifest, version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_is_no_field_does_not_fit() -> None:
    wrong = next(m for m in manifests() if m["kind"] == "StatefulSet")
    pod(wrong)["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_all_parts_are_there() -> None:
    assert set(WORKLOADS) == {
        *("kafka", "spark-master", "spark-worker", "app", "replica-0", "replica-1", "subscriber"),
        *("ingress-0", "ingress-1"),
        *(f"publisher-{source}" for source in ("ewr", "jfk", "lga")),
    }
    namespaces = {m["metadata"].get("namespace") for m in manifests() if m["kind"] != "Namespace"}
    assert namespaces == {"borealis"}


@pytest.mark.parametrize("name", [n for n in WORKLOADS if n.startswith(("replica-", "publisher-"))])
def test_what_is_started_again_takes_no_place_from_one_that_lives(name: str) -> None:
    """Two pods of one index or source, one deleted by force on a node cut off, would replace each other for ever."""
    assert not any("--take-over" in container["args"] for container in containers(WORKLOADS[name]))


def test_services_and_budgets_select_pods_that_are_there() -> None:
    found = of_kind("Service", "PodDisruptionBudget")
    for one in manifests():
        if one["kind"] not in ("Service", "PodDisruptionBudget"):
            continue
        selector = one["spec"]["selector"]
        assert any(selects(selector.get("matchLabels", selector), w) for w in WORKLOADS.values()), label(one)
    for name, workload in of_kind("StatefulSet").items():
        assert selects(workload["spec"]["selector"]["matchLabels"], workload)
        assert workload["spec"]["serviceName"] in found, name


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_have_what_they_name_and_no_more_rights_than_they_need(name: str) -> None:
    workload = WORKLOADS[name]
    spec = pod(workload)
    claims = {c["metadata"]["name"] for c in workload["spec"].get("volumeClaimTemplates", ())}
    volumes = {v["name"] for v in spec.get("volumes", ())} | claims
    assert spec["enableServiceLinks"] is False
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for volume in spec.get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in of_kind("PersistentVolumeClaim")
    for container in containers(workload):
        assert {m["name"] for m in container.get("volumeMounts", ())} <= volumes
        assert {e["configMapRef"]["name"] for e in container.get("envFrom", ())} <= set(of_kind("ConfigMap"))
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
        ports = {p["name"] for p in container.get("ports", ())}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asks = container.get(probe, {})
            port = (asks.get("httpGet") or asks.get("tcpSocket") or {}).get("port")
            assert port is None or port in ports, f"{name}: {probe}"


@pytest.mark.parametrize("k", [0, 1])
def test_replicas_keep_apart_and_are_asked_for_what_they_answer(k: int) -> None:
    workload = WORKLOADS[f"replica-{k}"]
    assert workload["spec"]["replicas"] == 1
    (apart,) = pod(workload)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert all(selects(apart["labelSelector"]["matchLabels"], WORKLOADS[f"replica-{n}"]) for n in (0, 1))
    (container,) = containers(workload)
    assert container["args"][:3] == ["borealis", "replica", str(k)]
    paths = {p: container[p]["httpGet"]["path"] for p in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


@pytest.mark.parametrize("k", [0, 1])
def test_ingresses_keep_apart_and_are_not_there_until_they_are_asked_for(k: int) -> None:
    """The app of the manifests reads no topics of other programs."""
    workload = WORKLOADS[f"ingress-{k}"]
    assert workload["spec"]["replicas"] == 0
    (apart,) = pod(workload)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert all(selects(apart["labelSelector"]["matchLabels"], WORKLOADS[f"ingress-{n}"]) for n in (0, 1))
    (container,) = containers(workload)
    assert container["args"] == ["borealis", "ingress", str(k)]
    paths = {p: container[p]["httpGet"]["path"] for p in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_the_broker_keeps_rows_of_any_event_time() -> None:
    (broker,) = containers(WORKLOADS["kafka"])
    assert {"name": "KAFKA_LOG_RETENTION_MS", "value": "-1"} in broker["env"]
