"""Events in a small world, drawn at random."""

from dataclasses import dataclass

from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import ObjectKey
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    node,
    resource_slice,
    taint,
    taint_rule,
    typed,
)
from tests.tools.store_objects import CLAIMS, FIRST, KINDS, OBJECTS, SHARED, allocations, claims


@dataclass(frozen=True)
class Assume:
    """A plan was decided; for the claim as it is known, if it may have one."""

    claim: str
    allocation: Allocation


@dataclass(frozen=True)
class Forget:
    """The plan that is assumed for a claim is taken back."""

    claim: str


@dataclass(frozen=True)
class Look:
    """Somebody takes a snapshot, and keeps it or lets go of it."""

    keep: bool


Event = Change | Assume | Forget | Look


def key_of(raw: Object) -> ObjectKey:
    return ObjectKey(raw["metadata"].get("namespace", ""), raw["metadata"]["name"])


@st.composite
def changes(draw: st.DrawFn, kinds: st.SearchStrategy[str]) -> Change:
    kind = draw(kinds)
    raw = draw(OBJECTS[kind])
    match draw(st.sampled_from(["changed"] * 5 + ["removed", "refused", "replaced"])):
        case "changed":
            return Changed(kind, typed(raw))
        case "removed":
            return Removed(kind, key_of(raw))
        case "refused":
            return Refused(kind, key_of(raw), "unreadable")
    several = draw(st.lists(OBJECTS[kind], max_size=3, unique_by=key_of))
    listed = {key_of(one) for one in several}
    refused = (
        [] if key_of(raw) in listed or draw(st.booleans()) else [Refused(kind, key_of(raw), "unreadable")]
    )
    return Replaced(kind, tuple(typed(one) for one in several), tuple(refused))


CLAIM_EVENTS: st.SearchStrategy[Event] = st.one_of(
    changes(st.just("ResourceClaim")),
    st.builds(Changed, st.just("ResourceClaim"), claims().map(typed)),
    st.builds(Assume, st.sampled_from(CLAIMS), allocations().map(Allocation.model_validate)),
    st.builds(Forget, st.sampled_from(CLAIMS)),
    st.builds(Look, st.booleans()),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    changes(st.sampled_from(KINDS)), changes(st.just("ResourceSlice")), CLAIM_EVENTS
)

BEGINNING = [
    Changed(raw["kind"], typed(raw))
    for raw in (
        node("n", zone="a"),
        node("m", zone="b"),
        device_class("a", "x"),
        taint_rule("r1", {"driver": "d"}, taint("t1")),
        taint_rule("r2", {"device": "A"}, taint("t2")),
        counter_slice(
            "t", {"g": {"m": 40, "k": "3m"}, "h": {"x": "8Gi"}}, slices=2, perDeviceNodeSelection=True
        ),
        resource_slice(
            "s-1",
            [
                device("A", {"model": "x"}, {"mem": "4Gi"}, {"g": {"m": 20}}, nodeName="n"),
                device("B", {}, {}, {"g": {"m": 40, "k": "1m"}}, allNodes=True),
                device("C", {}, {"mem": "4Gi"}, {"h": {"x": "3Gi"}}, nodeName="m", **SHARED),
            ],
            slices=2,
            perDeviceNodeSelection=True,
        ),
        resource_slice("s-2", [device("A", **SHARED), device("B")], pool="q", allNodes=True),
        counter_slice("u-1", {"g": {"m": 9}}, driver="e", slices=2, allNodes=True),
        resource_slice(
            "u-2",
            [device("A", draws={"g": {"m": 4}}), device("C", draws={"g": {"m": 5}}, **SHARED)],
            driver="e",
            slices=2,
            allNodes=True,
        ),
        held(
            "c0",
            hold("A", driver="e"),
            hold("C", driver="e", shareID="s", consumedCapacity={"mem": "1Gi"}),
            hold("A", pool="q", shareID="s", consumedCapacity={"mem": "2Gi"}),
        ),
        *({**claim(name), "metadata": {**claim(name)["metadata"], **FIRST[name]}} for name in CLAIMS),
    )
]
"""A fleet that can be used, and claims that wait: what random events alone would hardly arrive at."""
