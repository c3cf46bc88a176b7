"""A pin to a node is added to a pod's affinity, and can be taken off again."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.pinning import pin, pinned, required, unpinned
from reconciler.embedded.bodies import apply_json_patch
from tests.tools.koordinator_cluster import wants

ZONE = {"key": "zone", "operator": "In", "values": ["z"]}
OTHER = {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}


@pytest.mark.parametrize(
    "terms",
    [
        None,
        [{"matchExpressions": [ZONE]}],
        [{"matchExpressions": [ZONE], "matchFields": [OTHER]}, {"matchExpressions": [ZONE]}],
        [{"matchFields": [OTHER]}, {}],
    ],
)
def test_a_pin_comes_off_and_leaves_what_the_pod_required(terms: list[Any] | None):
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    raw = wants("p", {"nvidia.com/gpu": 1})
    raw["spec"] |= {"affinity": affinity} if terms else {}
    before = Pod.model_validate(raw)
    patched: Any = apply_json_patch(raw, pin(before, "a"))
    after = Pod.model_validate(patched)
    bound = after.model_copy(update={"spec": after.spec.model_copy(update={"node_name": "a"})})
    assert (pinned(after), pinned(bound)) == ("a", "a")
    free = unpinned(bound, "a")
    assert (free.spec.node_name, required(free)) == ("", required(before))
