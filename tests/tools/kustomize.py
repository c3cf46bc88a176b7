"""What `kubectl kustomize` builds of a folder below `deploy`."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools.deployed_rights import DEPLOY

VERSIONS = ("1.36", "1.37")


@cache
def built(folder: str) -> list[Any]:
    """The objects of a folder below deploy. Skips where there is no kubectl, except in CI, which has it."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        if os.environ.get("CI"):
            pytest.fail("kubectl is missing, and with it kustomize")
        pytest.skip("kubectl, which has kustomize built in, is not installed")
    done = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, cwd=DEPLOY, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def built_with(component: str, folder: Path) -> list[Any]:
    """The objects of the base with a component. `folder` is for the kustomization that names both."""
    write(folder, component)
    return built(str(folder))


def write(folder: Path, *components: str) -> None:
    """Write a kustomization that names the base and components."""
    made = {
        "kind": "Kustomization",
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "resources": [os.path.relpath(DEPLOY / "base", folder)],
        "components": [os.path.relpath(DEPLOY / "components" / one, folder) for one in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(made))


def of_kind(objects: list[Any], kind: str) -> Any:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found
