"""Held devices never exclude one another, in any order of claims and after any rebuild of the snapshot."""

from itertools import combinations

from hypothesis import event, given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import DeviceID
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics, with_exclusion_scopes, with_group_modes
from reconciler.cel.program import CelError, CelRefused, compile_selector
from reconciler.state.devices.exclusion_modes import conflicts
from reconciler.state.store import Store
from reconciler.state.trial import store_of
from tests.tools.allocation_world import World, numbered
from tests.tools.builders import (
    Object,
    claim,
    device,
    device_class,
    held,
    hold,
    node,
    request,
    resource_slice,
    snapshot,
    typed,
)
from tests.tools.examples import examples
from tests.tools.exclusive_twin import judged, mode_of
from tests.tools.naive_allocation import Device, Scene

RULES = st.builds(
    Semantics,
    group_modes=st.sampled_from([with_group_modes(modes) for modes in ([], ["*=pairwise"], ["*=kep-5963"])]),
    exclusion_scopes=st.sampled_from([with_exclusion_scopes([]), with_exclusion_scopes(["d=pool"])]),
)
EXPRESSIONS = (
    'device.attributes["d"].mode == "m"',
    'device.attributes["d"].mode != "m"',
    'device.attributes["d"].size > 1',
    '["m", "o"].exists(mode, mode == device.attributes["d"].mode)',
    "1 / device.attributes['d'].size == 1",
    "true",
    "device.nonsense",
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Object]:
    """One or two pools of parts of up to two physical devices, and some that draw from none.

    Some physical devices span two nodes, and some parts belong to no single node.
    """
    places: list[Object] = [{"nodeName": "n"}, {"nodeName": draw(st.sampled_from("nm"))}]
    places += [{"allNodes": True}] if draw(st.integers(0, 3)) == 0 else []
    made = []
    for number in range(draw(st.integers(1, 2))):
        parts = []
        for at in range(draw(st.integers(2, 7))):
            attributes: Object = draw(st.sampled_from([{"mode": "m"}, {"mode": "n", "size": 2}, {"size": 1}]))
            fields: Object = dict(draw(st.sampled_from(places)))
            if draw(st.integers(0, 3)) == 0:
                fields["compatibleOnlyWith"] = {"expression": draw(st.sampled_from(EXPRESSIONS))}
            if draw(st.integers(0, 4)) == 0:
                fields["allowMultipleAllocations"] = True
            sets = draw(st.sampled_from([(), ("g",), ("g",), ("h",), ("g", "h")]))
            part = device(f"d{at}", attributes, draws={name: {"m": 1} for name in sets}, **fields)
            for entry in part.get("consumesCounters", ()):
                groups = draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True))
                entry["compatibilityGroups"] = groups
            parts.append(part)
        pool = resource_slice(f"s{number}", parts, pool=f"p{number}", perDeviceNodeSelection=True)
        pool["spec"]["sharedCounters"] = [
            {"name": name, "counters": {"m": {"value": "9"}}} for name in ("g", "h")
        ]
        made.append(pool)
    return made


def goes(scene: Scene, one: Device, other: Device) -> bool:
    """The result of one device's expression on another device."""
    stated = one.raw.get("compatibleOnlyWith")
    try:
        return stated is None or compile_selector(stated["expression"]).matches(scene.view(other))
    except (CelRefused, CelError):
        return False


def at_odds(slices: list[Object], held: set[DeviceID], rules: Semantics) -> list[str]:
    """All violations among held devices, from the definition: pairs, and whole counter sets."""
    scene = Scene(World(slices, [], rules=rules), "n")
    taken = [
        Device(raw, s, True, 0)
        for s in slices
        for raw in s["spec"]["devices"]
        if DeviceID("d", s["spec"]["pool"]["name"], raw["name"]) in held
    ]
    found = []
    for one, other in combinations(taken, 2):
        mine, theirs = (
            {e["counterSet"]: set(e["compatibilityGroups"]) for e in d.raw.get("consumesCounters", ())}
            for d in (one, other)
        )
        common = mine.keys() & theirs.keys()
        if one.key[1] != other.key[1] or not judged(scene.world, one, other):
            continue
        if not (goes(scene, one, other) and goes(scene, other, one)):
            found.append(f"{one.key} {other.key}")
        for name in common:
            both = mine[name] and theirs[name]
            if both and not mine[name] & theirs[name]:
                found.append(f"groups of {one.key} {other.key} in {name}")
            if mode_of(scene.world, "d") == "kep-5963" and bool(mine[name]) != bool(theirs[name]):
                found.append(f"{one.key} {other.key}: only one has groups in {name}")
    if mode_of(scene.world, "d") == "kep-5963":
        found += _nothing_in_common(taken)
    return found


def _nothing_in_common(taken: list[Device]) -> list[str]:
    by_set: dict[tuple[str, str], list[set[str]]] = {}
    for one in taken:
        for entry in one.raw.get("consumesCounters", ()):
            by_set.setdefault((one.key[1], entry["counterSet"]), []).append(set(entry["compatibilityGroups"]))
    return [str(key) for key, sets in by_set.items() if any(sets) and not set.intersection(*sets)]


@examples(50)
@given(
    fleets(),
    RULES,
    st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=8),
)
def test_what_is_held_together_goes_together(slices, rules, turns):
    """Claims are added and deleted; sometimes the snapshot is rebuilt, as after a restart."""
    basis = [node("n"), node("m"), device_class(), *slices]
    holding: dict[str, Object] = {}

    def fresh() -> Store:
        return store_of(map(typed, (*basis, *holding.values())), rules)

    store = fresh()
    for number, (count, restart, free) in enumerate(turns):
        if restart:
            store = fresh()
        if free and holding:
            name = min(holding)
            gone = {**holding.pop(name), "status": {}}
            store.apply(Changed("ResourceClaim", typed(gone)))
        raw = claim(f"c{number}", request(count=count))
        wanted = typed(raw)
        assert isinstance(wanted, ResourceClaim)
        outcome = numbered(allocate, [wanted], store.snapshot())
        event("granted" if isinstance(outcome, Granted) else "refused")
        if isinstance(outcome, Granted):
            (plan,) = outcome.plans
            holding[raw["metadata"]["name"]] = raw | {"status": {"allocation": plan.allocation.to_json()}}
            store.apply(Changed("ResourceClaim", typed(holding[raw["metadata"]["name"]])))
        devices = {
            DeviceID(r["driver"], r["pool"], r["device"])
            for one in holding.values()
            for r in one["status"]["allocation"]["devices"]["results"]
        }
        assert at_odds(slices, devices, rules) == []
        assert conflicts(store.snapshot()) == []
        assert conflicts(fresh().snapshot()) == []


@examples(100)
@given(fleets(), st.sampled_from(["pairwise", "kep-5963"]), st.data())
def test_what_the_wider_scope_allows_the_narrower_allows_too(slices, mode, data):
    """Whatever is held, also if that excludes one another."""
    devices = [(s["spec"]["pool"]["name"], d["name"]) for s in slices for d in s["spec"]["devices"]]
    taken = data.draw(st.lists(st.sampled_from(devices), unique=True, min_size=1))
    claims = [held(f"h{at}", hold(name, pool=pool)) for at, (pool, name) in enumerate(taken)]
    narrow, wide = (
        snapshot(node("n"), *slices, *claims, rules=Semantics(
            group_modes=with_group_modes([f"*={mode}"]),
            exclusion_scopes=with_exclusion_scopes([f"*={scope}"]),
        ))
        for scope in ("counter-set", "pool")
    )  # fmt: skip
    if narrow.occupancy.open is None or wide.occupancy.open is None:
        assert narrow.occupancy.open is wide.occupancy.open
        return
    event("the scopes differ" if (narrow.occupancy.open != wide.occupancy.open).any() else "equal")
    assert not (wide.occupancy.open & ~narrow.occupancy.open).any()
    found = {one.message.split(": ", 1)[1] for one in conflicts(narrow)}
    assert found <= {one.message.split(": ", 1)[1] for one in conflicts(wide)}
