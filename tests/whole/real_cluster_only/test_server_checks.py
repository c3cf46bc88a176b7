"""What only a real API server can check: all kinds that kustomize builds, and the types of expressions.

Skipped unless a cluster is lent. The other tests for real clusters are in `any_cluster` and run without one.
"""

import asyncio
import os
import shutil
import subprocess
from contextlib import suppress

import pytest

from reconciler.errors import Conflict
from tests.tools.any_cluster import CONTEXT, Lent, Object, is_lent, lent_or_embedded
from tests.tools.any_policies import install
from tests.tools.deployed_rights import DEPLOY, NAMESPACE
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


async def test_the_server_takes_what_kustomize_builds():
    """Nothing of it is kept. Its namespace has to be there, and is made if it is not."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    async with lent_or_embedded() as found:
        with suppress(Conflict):  # where a release of ours is installed
            await found.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for folder in ("base", "overlays/shadow"):
            command = [kubectl, "--context", os.environ[CONTEXT], "apply", "--dry-run=server", "-k"]
            done = await asyncio.to_thread(
                subprocess.run,
                [*command, str(DEPLOY / folder)],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
            assert done.returncode == 0, done.stderr
