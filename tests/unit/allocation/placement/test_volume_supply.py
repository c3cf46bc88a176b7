"""Pods that share a claim and compete for volumes: against trying every node and every volume."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.placed_pods import PlacedPods, as_pod
from tests.tools.pod_scenarios import HOST, A, B
from tests.tools.scenario import asking
from tests.tools.volume_scenarios import NO_PROVISIONER, mounting, storage_class, volume, volume_claim

EVERYWHERE = ""
LOCAL = storage_class("local", NO_PROVISIONER)
MADE_AT_B = storage_class(
    "wait", allowedTopologies=[{"matchLabelExpressions": [{"key": HOST, "values": ["b"]}]}]
)


@dataclass(frozen=True)
class Case:
    """Volumes and claims by name, and the claims of each pod."""

    volumes: Mapping[str, tuple[str, str, int]]
    """Class, node or everywhere, size"""
    claims: Mapping[str, tuple[str, int]]
    """Class and size"""
    pods: Sequence[tuple[str, ...]]

    def fits(self) -> bool:
        """What placement says."""
        world = PlacedPods(A, B, LOCAL, MADE_AT_B)
        for name, (class_, node, size) in self.volumes.items():
            made = volume(name, node, class_)
            made["spec"]["capacity"] = {"storage": f"{size}Gi"}
            world.put(made)
        for name, (class_, size) in self.claims.items():
            world.put(volume_claim(name, class_, f"{size}Gi"))
        pods = [as_pod(asking(f"p{n}", **mounting(*names))) for n, names in enumerate(self.pods)]
        together = world.placement.together([(pod, (), ()) for pod in pods], world.store.snapshot())
        assert together is not None
        fits = together.places(()) is not None
        assert fits or not together.gave_up
        one_node = together.on_one_node().tolist()
        assert all(one_node[n] or not self.works([node] * len(pods)) for n, node in enumerate("ab"))
        return fits

    def works(self, nodes: Sequence[str]) -> bool:
        """Whether every claim can have a volume if the pods are on these nodes."""
        users = Counter(name for names in self.pods for name in names)
        at = {
            name: {node for names, node in zip(self.pods, nodes, strict=True) if name in names}
            for name in users
        }
        return any(
            all(self._suits(name, chosen, at[name]) for name, chosen in zip(at, volumes, strict=True))
            and all(times == 1 for chosen, times in Counter(volumes).items() if chosen is not None)
            for volumes in product([*self.volumes, None], repeat=len(at))
        )

    def _suits(self, claim: str, chosen: str | None, nodes: set[str]) -> bool:
        class_, size = self.claims[claim]
        if chosen is None:
            return class_ == "wait" and nodes == {"b"}
        of, node, capacity = self.volumes[chosen]
        return of == class_ and capacity >= size and (node == EVERYWHERE or nodes == {node})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    classes, sizes = st.sampled_from(["local", "local", "wait"]), st.integers(1, 3)
    node = st.sampled_from(["a", "b", "b", EVERYWHERE])
    volumes = draw(st.lists(st.tuples(classes, node, sizes), max_size=4))
    claims = draw(st.lists(st.tuples(classes, sizes), min_size=2, max_size=4))
    names = st.sampled_from([f"c{n}" for n in range(len(claims))])
    pods = draw(st.lists(st.lists(names, min_size=1, max_size=2, unique=True), min_size=2, max_size=3))
    return Case(
        {f"v{n}": one for n, one in enumerate(volumes)},
        {f"c{n}": one for n, one in enumerate(claims)},
        [tuple(names) for names in pods],
    )


@settings(max_examples=150)
@given(cases())
def test_pods_fit_together_if_some_nodes_and_volumes_serve_all(case: Case):
    somewhere = [
        Case(case.volumes, case.claims, (names,)).works([node]) for names in case.pods for node in "ab"
    ]
    alone = [any(somewhere[2 * n : 2 * n + 2]) for n in range(len(case.pods))]
    if not all(alone):
        return  # such a pod does not count, or nothing is asked
    expected = any(case.works(nodes) for nodes in product("ab", repeat=len(case.pods)))
    assert case.fits() == expected


def together(world: PlacedPods, *pods: Any) -> Any:
    asked = [(as_pod(one), (), ()) for one in pods]
    found = world.placement.together(asked, world.store.snapshot())
    assert found is not None
    return found


def test_volumes_that_other_pods_will_get_are_gone():
    """Two volumes at b; a pod that has devices there, and is not bound yet, gets one of them."""
    claims = [volume_claim(name, "local") for name in "xyz"]
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), volume("w", "b", "local"), *claims)
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is not None
    decided = as_pod(asking("r", **mounting("z")))
    world.nodes.host(decided.key, decided, "b")
    assert together(world, p, q).places(()) is None


def test_a_volume_that_is_kept_for_a_claim_is_not_competed_for():
    kept = volume("w", "b", "local", of="y")
    kept["status"]["phase"] = "Available"
    claims = [volume_claim(name, "local") for name in "xy"]
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), kept, *claims)
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is not None


def test_claims_whose_selector_is_invalid_keep_their_pod_from_all_nodes():
    bad = volume_claim("x", "local", selector={"matchExpressions": [{"key": "k", "operator": "Like"}]})
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), bad, volume_claim("y", "local"))
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is None
