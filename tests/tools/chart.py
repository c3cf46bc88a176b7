"""The Helm chart: its values, its schema, and the objects of a release by the renderer of the tests."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.tools.deployed_rights import DEPLOY
from tests.tools.go_template import render

CHART = DEPLOY / "helm" / "dra-reconciler"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
NOTES = "templates/NOTES.txt"
_VALID = jsonschema.Draft7Validator(SCHEMA)

Objects = dict[tuple[str, str], Any]
"""Kind and name -> object"""


def merged(base: Any, over: Any) -> Any:
    """As Helm merges values: maps by key, all else replaced."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {key: merged(base.get(key), over[key]) if key in over else base[key] for key in base | over}
    return deepcopy(over)


def validate(values: Mapping[str, Any]) -> None:
    """Raises jsonschema.ValidationError for values that the schema refuses."""
    _VALID.validate(merged(DEFAULTS, values))


def texts(
    values: Mapping[str, Any], release: str = "dra-reconciler", namespace: str = "dra-reconciler"
) -> dict[str, str]:
    """What each template becomes, by its path in the chart."""
    dot = {
        "Values": merged(DEFAULTS, values),
        "Release": {"Name": release, "Namespace": namespace},
        "Chart": {"AppVersion": METADATA["appVersion"]},
        "Files": {"Get": lambda path: (CHART / path).read_text()},
    }
    validate(values)
    return {path: render(text, dot) for path, text in _templates().items()}


@cache
def _templates() -> dict[str, str]:
    return {
        str(path.relative_to(CHART)): path.read_text()
        for path in sorted((CHART / "templates").rglob("*"))
        if path.is_file()
    }


def objects(rendered: Mapping[str, str]) -> Objects:
    """The objects of a release and of its hooks, from what the templates became."""
    found = [
        one
        for path, text in rendered.items()
        if path != NOTES
        for one in yaml.load_all(text, Loader=yaml.CSafeLoader)
        if one
    ]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def is_hook(one: Any) -> bool:
    """Whether Helm creates it for an occasion, and not with the release."""
    return "helm.sh/hook" in one["metadata"].get("annotations", {})


class NoHelm(Exception):
    """Neither the program nor its library is installed."""


def by_helm(values: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """The same as `texts` by real Helm: the program, or the library in the package helm-python-sdk.

    Raises NoHelm. The program does not show the notes.
    """
    try:
        from helm_python.chart import Chart  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        return _by_program(values, folder)
    made = Chart.load(CHART).render(dict(values), name="dra-reconciler", namespace="dra-reconciler")
    return {path.partition("/")[2]: text for path, text in made.items()}


def _by_program(values: Mapping[str, Any], folder: Path) -> dict[str, str]:
    helm = shutil.which("helm")
    if helm is None:
        raise NoHelm
    (folder / "values.yaml").write_text(yaml.safe_dump(dict(values)))
    command = [helm, "template", "dra-reconciler", str(CHART), "-n", "dra-reconciler", "-f", "values.yaml"]
    env = {**os.environ, "HELM_CONFIG_HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {"all": done.stdout}


# -- Values of releases of the chart, and the objects that it makes of them.


BASE: dict[str, Any] = {"ownDrivers": ["gpu.example.com"]}
"""What the base of kustomize owns"""
SHADOW: dict[str, Any] = {"mode": "shadow", "replicas": 1, **BASE}
EVERYTHING: dict[str, Any] = {
    "image": {"tag": "1.2", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "s"}],
    "ownDrivers": ["gpu.example.com"],
    "ownClasses": ["a", "b"],
    "koordinator": True,
    "makeTemplates": True,
    "resourceMap": {"example.com/npu-half": {"class": "npu.example.com", "name": "npu-half"}},
    "env": [{"name": "DRA_RECONCILER_LOG_LEVEL", "value": "debug"}],
    "envFrom": [{"configMapRef": {"name": "settings"}}],
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"a": "b"},
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "annotations": {"of": "the deployment"},
    "podAnnotations": {"of": "the pods"},
    "podLabels": {"team": "x"},
    "serviceAccount": {"annotations": {"of": "the account"}},
    "admission": {"confine": True, "gatePods": True, "announceClaims": True, "rewriteResources": True},
    "observability": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "interval": "30s",
        "runbooks": "https://git.example.org/v1/docs/runbooks.md",
    },
}


@cache
def _rendered(release: str, values: str) -> Objects:
    return objects(texts(json.loads(values), release))


def rendered(release: str = "dra-reconciler", **values: Any) -> Objects:
    """The objects of a release, without those of its hooks; the base owns a driver."""
    made = _rendered(release, json.dumps(BASE | values))
    return {key: one for key, one in made.items() if not is_hook(one)}


def compared(objects: list[Any]) -> dict[tuple[str, str], Any]:
    """What both make: not the Namespace, which Helm has a flag for, nor what says how often to pull."""
    found = {}
    for one in deepcopy(objects):
        if one["kind"] != "Namespace":
            one["metadata"].pop("labels", None)
            found[one["kind"], one["metadata"]["name"]] = one
        if one["kind"] == "Deployment":
            one["spec"]["template"]["spec"]["containers"][0].pop("imagePullPolicy", None)
    return found
