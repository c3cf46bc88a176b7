"""The objects of `deploy/base`, read from their files."""

from typing import Any

import yaml

from tests.tools.checkout import ROOT

BASE = ROOT / "deploy" / "base"
KUBERNETES = "1.36"


def documents() -> list[Any]:
    """Every object of the base; a kustomization is no API object."""
    paths = sorted(path for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> Any:
    return next(document for document in documents() if document["kind"] == kind)
