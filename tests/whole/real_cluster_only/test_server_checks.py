"""What only a real API server can check: what kustomize builds, and the types of expressions.

Skipped unless a cluster is lent. The other tests for real clusters are in `any_cluster` and run without one.
"""

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from reconciler.errors import Conflict
from tests.tools.any_cluster import CONTEXT, Lent, Object, is_lent, lent_or_embedded
from tests.tools.any_policies import MUTATING, install
from tests.tools.deployed_rights import DEPLOY
from tests.tools.kustomize import built, write
from tests.tools.patience import PATIENCE

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(not is_lent(), reason=f"name a context of KUBECONFIG that may be used in {CONTEXT}"),
]
TYPES_SECONDS = 20.0
"""Within which the types of a policy are checked. A server takes two for the first one."""
NO_CONTROLLER = (
    "nothing checks the types of expressions on this cluster: validatingadmissionpolicy-status-controller of "
    "kube-controller-manager does not run"
)


async def checked(found: Lent, name: str) -> Object | None:
    """The status of a policy once its types are checked; None if nothing checks them."""
    try:
        async with asyncio.timeout(TYPES_SECONDS):
            while True:
                policy = await found.read("ValidatingAdmissionPolicy", name)
                status: Object = policy.get("status") or {}
                if status.get("observedGeneration") == policy["metadata"]["generation"]:
                    return status
                await asyncio.sleep(0.2)
    except TimeoutError:
        return None


async def test_the_server_finds_nothing_wrong_with_the_types_of_expressions():
    async with lent_or_embedded() as found:
        warnings = {}
        for one in await install(found):
            if one["kind"] == "ValidatingAdmissionPolicy":
                name = one["metadata"]["name"]
                status = await checked(found, name)
                if status is None:
                    pytest.skip(NO_CONTROLLER)
                warnings[name] = status.get("typeChecking", {}).get("expressionWarnings", [])
        assert len(warnings) == 5
        assert not any(warnings.values()), warnings


def dry_applied(folder: Path) -> "subprocess.CompletedProcess[str]":
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    command = [kubectl, "--context", os.environ[CONTEXT], "apply", "--dry-run=server", "-k", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


async def test_the_server_takes_what_kustomize_builds(tmp_path: Path):
    """Nothing of it is kept. Its namespaces have to be there, and are made if they are not.

    Not `observability`: the Prometheus operator has its kinds.
    """
    write(tmp_path, *sorted(path.name for path in (DEPLOY / "components").iterdir()))
    names = ("base", "overlays/shadow", "sweep/play", "sweep/collect", "admission")
    folders = [*(DEPLOY / name for name in names), tmp_path]
    objects = [one for folder in folders for one in built(str(folder))]
    async with lent_or_embedded() as found:
        for one in objects:
            if one["kind"] == "Namespace":
                with suppress(Conflict):  # of another folder, or of a release of ours that is installed
                    await found.make(one)
        old = False
        for folder in folders:
            done = await asyncio.to_thread(dry_applied, folder)
            if f'no matches for kind "{MUTATING}' in done.stderr:
                old = True
            else:
                assert done.returncode == 0, done.stderr
        if old:
            pytest.skip("the cluster takes all but `admission`, which needs Kubernetes 1.36")
