"""What is deployed is valid, and may do what the reconciler was seen to do, no more."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from reconciler.settings import Settings

BASE = Path(__file__).parents[2] / "deploy" / "base"
KUBERNETES = "1.36"


def documents() -> list[Any]:
    """Every object of the base; a kustomization is no API object."""
    paths = sorted(path for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> Any:
    return next(document for document in documents() if document["kind"] == kind)


@pytest.mark.parametrize("document", documents(), ids=lambda d: f"{d['kind']} {d['metadata']['name']}")
def test_every_manifest_fits_the_published_schema(document):
    kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_base_names_every_file_beside_it():
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(p.name for p in BASE.glob("*.yaml") if p.name != "kustomization.yaml")


def test_the_pod_is_restricted_and_outlives_its_drain():
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    drain = Settings.model_fields["drain_seconds"].default
    assert pod["terminationGracePeriodSeconds"] > drain
