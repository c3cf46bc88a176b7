"""What admission policies make of claims, and of pods that ask for extended resources."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import mapping
from reconciler.api.migrate.pods import rewrite
from reconciler.api.objects.claims import ALLOCATED_AT, ANNOUNCED, ResourceClaim, is_ours
from reconciler.api.objects.core import GATE
from reconciler.api.versions.reading import read
from reconciler.control.decisions.allocating import Allocated
from reconciler.errors import Gone, Rejected
from tests.tools.admission_policies import comparable, pod_specs
from tests.tools.any_cluster import lent_or_embedded
from tests.tools.any_policies import announce, asking, policed

pytestmark = pytest.mark.loopback

GPU = "nvidia.com/gpu"
REFUSED = [
    ({"requests": {GPU: "2"}}, "Limit must be set"),
    ({"limits": {GPU: "2"}, "requests": {GPU: "1"}}, "must be equal to"),
    ({"limits": {GPU: "1500m"}}, "must be an integer"),
    ({"limits": {GPU: "-1"}}, "must be greater than or equal to 0"),
]


async def test_a_pod_that_two_policies_change_gets_one_claim_and_one_gate():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        made = (await found.make(asking("rewritten")))["spec"]
        wanted = {"name": "main-gpu-nvidia-com", "resourceClaimTemplateName": "gpu.nvidia.com-2"}
        assert made["resourceClaims"] == [wanted]
        resources = {key: one for key, one in made["containers"][0]["resources"].items() if one}
        assert resources == {"claims": [{"name": "main-gpu-nvidia-com"}]}
        assert made["schedulingGates"] == [{"name": GATE}]


async def test_an_announced_claim_is_allocated_in_one_write_and_goes_when_it_is_deleted():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        await announce(found)
        async with found.reconciling() as run:
            for name in ("first", "one"):  # a claim that is there at the start is fenced off
                await found.claim(name)
                await run.heard(Allocated, lambda told, name=name: told.claim.name == name)  # type: ignore[misc]
        written = cast("ResourceClaim", read(await found.read("ResourceClaim", "one")))
        assert written.metadata.annotations[ALLOCATED_AT] == ANNOUNCED
        assert is_ours(written)
        await found.claim("pending", managed=False)
        for name in ("one", "pending"):
            kind = found.kind("ResourceClaim")
            await found.client.delete(kind, found.key(kind, name))

            async def gone(name: str = name) -> bool:
                try:
                    await found.read("ResourceClaim", name)
                except Gone:
                    return True
                return False

            await found.until(gone, otherwise=f"the resourceclaim controller does not free claim {name}")


async def test_requests_that_the_server_refuses_are_still_refused():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        for resources, said in REFUSED:
            for part in ("containers", "initContainers"):
                made = asking("refused")
                made["spec"][part] = [
                    {"name": part.lower(), "image": "example.com/i", "resources": resources}
                ]
                with pytest.raises(Rejected, match=said):
                    await found.tried(made)


@settings(max_examples=3)
@given(specs=st.lists(pod_specs(), min_size=10, max_size=30))
async def test_the_server_rewrites_as_the_command_does(specs: list[dict[str, Any]]):
    """Nothing is kept: the server answers what it would create."""
    async with lent_or_embedded() as found, policed(found, mutating=True):
        for at, spec in enumerate(specs):
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"dry-{at}"}, "spec": spec}
            answer = (await found.tried(made))["spec"]
            rewritten = rewrite(spec, mapping([]), gate=True, where="Pod p")
            wanted = rewritten.spec if rewritten is not None else spec
            if wanted.get("resourceClaims"):  # by the other policy of this namespace
                others = [one for one in wanted.get("schedulingGates", []) if one["name"] != GATE]
                wanted = {**wanted, "schedulingGates": [*others, {"name": GATE}]}
            assert comparable(answer) == comparable(wanted)
