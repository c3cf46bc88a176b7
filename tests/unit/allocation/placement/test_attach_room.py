"""Pods that share a claim, and how many volumes nodes can attach: against trying every node for each."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.placed_pods import PlacedPods, as_pod
from tests.tools.pod_scenarios import A, B
from tests.tools.scenario import asking, running
from tests.tools.volume_scenarios import csi_node, mounting, volume, volume_claim

NAMES = [f"v{n}" for n in range(4)]
VOLUMES = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)


def works(
    limits: dict[str, int], there: dict[str, list[str]], pods: Sequence[Sequence[str]], nodes: Sequence[str]
) -> bool:
    """Whether the pods can come to these nodes one after another."""
    attached = {node: set(there[node]) for node in limits}
    for volumes, node in zip(pods, nodes, strict=True):
        new = set(volumes) - attached[node]
        if new and len(attached[node] | new) > limits[node]:
            return False
        attached[node] |= new
    return True


@settings(max_examples=150)
@given(
    st.fixed_dictionaries({"a": st.integers(1, 3), "b": st.integers(1, 3)}),
    st.fixed_dictionaries({"a": VOLUMES, "b": VOLUMES}),
    st.lists(VOLUMES, min_size=2, max_size=3),
)
def test_a_volume_that_several_pods_use_is_attached_to_a_node_once(
    limits: dict[str, int], there: dict[str, list[str]], pods: list[list[str]]
):
    world = PlacedPods(A, B, *(csi_node(name, limit) for name, limit in limits.items()))
    for name in NAMES:
        world.put(volume(name, of=name))
        world.put(volume_claim(name, volume=name))
    for node, volumes in there.items():
        world.put(running(f"at-{node}", node, "1", **mounting(*volumes)))
    alone = [any(works(limits, there, [volumes], [node]) for node in "ab") for volumes in pods]
    if not all(alone):
        return  # such a pod makes all others wait
    asked = [(as_pod(asking(f"p{n}", **mounting(*volumes))), (), ()) for n, volumes in enumerate(pods)]
    together = world.placement.together(asked, world.store.snapshot())
    assert together is not None
    expected = any(works(limits, there, pods, nodes) for nodes in product("ab", repeat=len(pods)))
    assert (together.places(()) is not None) == expected
    one_node = together.on_one_node().tolist()
    for at, node in enumerate("ab"):
        assert one_node[at] or not works(limits, there, pods, [node] * len(pods))
