"""What admission policies make of pods that ask for extended resources when they are created."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import mapping
from reconciler.api.migrate.pods import rewrite
from reconciler.api.objects.core import GATE
from reconciler.errors import Rejected
from tests.tools.any_cluster import lent_or_embedded
from tests.tools.any_policies import asking, policed
from tests.tools.extended_requests import comparable, pod_specs

pytestmark = pytest.mark.loopback

GPU = "nvidia.com/gpu"
REFUSED = [
    ({"requests": {GPU: "2"}}, "Limit must be set"),
    ({"limits": {GPU: "2"}, "requests": {GPU: "1"}}, "must be equal to"),
    ({"limits": {GPU: "1500m"}}, "must be an integer"),
    ({"limits": {GPU: "-1"}}, "must be greater than or equal to 0"),
]


async def test_a_pod_that_two_policies_change_gets_one_claim_and_one_gate():
    async with lent_or_embedded() as found, policed(found):
        made = (await found.make(asking("rewritten")))["spec"]
        wanted = {"name": "main-gpu-nvidia-com", "resourceClaimTemplateName": "gpu.nvidia.com-2"}
        assert made["resourceClaims"] == [wanted]
        resources = {key: one for key, one in made["containers"][0]["resources"].items() if one}
        assert resources == {"claims": [{"name": "main-gpu-nvidia-com"}]}
        assert made["schedulingGates"] == [{"name": GATE}]


async def test_requests_that_the_server_refuses_are_still_refused():
    async with lent_or_embedded() as found, policed(found):
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
    async with lent_or_embedded() as found, policed(found):
        for at, spec in enumerate(specs):
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"dry-{at}"}, "spec": spec}
            answer = (await found.tried(made))["spec"]
            rewritten = rewrite(spec, mapping([]), gate=True, where="Pod p")
            wanted = rewritten.spec if rewritten is not None else spec
            if wanted.get("resourceClaims"):  # by the other policy of this namespace
                others = [one for one in wanted.get("schedulingGates", []) if one["name"] != GATE]
                wanted = {**wanted, "schedulingGates": [*others, {"name": GATE}]}
            assert comparable(answer) == comparable(wanted)
