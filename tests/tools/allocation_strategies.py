"""Small worlds with scarce devices: requests need about as many devices as exist, and compete for them.

Every world enables some features only, so that all pairs of features occur and none hides the others.
Worlds are valid as far as the API server checks them.
"""

from dataclasses import replace
from random import Random

from hypothesis import event
from hypothesis import strategies as st

from perf.fleets.hard import FAMILIES, SMALL, Scale, question
from reconciler.api.objects.semantics import Semantics, with_exclusion_scopes, with_group_modes
from tests.tools.allocation_world import NEW, OLD, World, without
from tests.tools.builders import (
    Object,
    claim,
    device_class,
    distinct,
    first_of,
    held,
    hold,
    match,
    node,
    opaque,
    selectors,
    wants,
)
from tests.tools.hard_twin import world_of
from tests.tools.pool_strategies import NODES, ZONE, Dice, Draw, drawn_taint_rule, pool_count, pool_slices

GROUP_MODES = (
    with_group_modes([]),
    with_group_modes(["*=pairwise"]),
    with_group_modes(["e=pairwise"]),
    with_group_modes(["*=kep-5963"]),
)
SCOPES = (with_exclusion_scopes([]), with_exclusion_scopes(["*=pool"]), with_exclusion_scopes(["e=pool"]))

LISTS = "DRAListTypeAttributes"

EVERYTHING = (
    "attributes", "constraints", "counters", "capacity", "taints", "admin", "alternatives", "all", "errors",
    "pools", "trouble", "places", "bindings", "configs", "claims", "held", "groups", "expressions",
    "derived",
)  # fmt: skip

CONTESTED = (
    "attributes", "constraints", "counters", "capacity", "admin", "alternatives", "all", "errors", "claims",
    "held", "taints", "groups", "expressions", "derived",
)  # fmt: skip


PLAIN = (
    'device.driver == "d"',
    "device.allowMultipleAllocations",
    'has(device.attributes["d"].m) && device.attributes["d"].m == "a"',
    'device.attributes["d"].?m.orValue("a") != "b"',
    'device.attributes["d"].kind.startsWith("k")',
    'device.attributes["d"].kind == "k1"',
    'device.attributes["d"].kind == "k2"',
    'device.capacity["d"].?mem.orValue(quantity("8")).compareTo(quantity("5")) >= 0',
)
RAISING = (
    'device.attributes["d"].m == "a"',
    'device.attributes["d"].m.startsWith("a")',
    'device.capacity["d"].mem.compareTo(quantity("4")) >= 0',
    'device.attributes["x.io"].nothing == 1 || device.attributes["d"].kind == "k1"',
    "device.nonsense",
)


DERIVED = (
    'device.attributes["d"].?m.orValue("a")',
    'device.attributes["d"].?kind.orValue("k1")',
    '[device.attributes["d"].?m.orValue("a"), "b"]',
    "device.driver",
    "device.allowMultipleAllocations",
    'size(device.attributes["d"])',
    '"m" in device.attributes["d"] ? ["a"] : []',
    'semver("1.0.0")',
)
DERIVED_RAISING = (
    'device.attributes["d"].m',
    'device.attributes["d"].kind',
    'device.capacity["d"].mem',
    "[device.attributes['d'].m, dyn(1)]",
    "device.nonsense",
)
CONSTRAINED = ("d/m", "d/m", "w.io/x")

AMOUNTS = ("1", "2", "3", "5", "9", "1500m", "100u")
TOLERATIONS: tuple[Object, ...] = (
    {"key": "k", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"},
    {"key": "l", "operator": "Exists", "effect": "NoSchedule"},
)


@st.composite
def rule_sets(draw: Draw) -> Semantics:
    """Both releases, list attributes on or off; sometimes another gate off."""
    if draw(st.integers(0, 9)) < 9:
        return draw(st.sampled_from((NEW, OLD, without(LISTS), without(LISTS, release=OLD))))
    gate = draw(
        st.sampled_from(
            (
                "DRADeviceBindingConditions",
                "DRAPartitionableDevices",
                "DRADeviceCompatibilityGroups",
                "DRADeviceTaints",
                "DRADeviceTaintRules",
                "DRAFractionalCapacityRange",
            )
        )
    )
    return without(gate, release=draw(st.sampled_from((NEW, OLD))))


def contests() -> st.SearchStrategy[World]:
    """Worlds where many requests compete for few devices, so that a search has to backtrack."""
    tying = st.sampled_from(
        (
            ("constraints",),
            ("constraints", "derived"),
            ("constraints", "counters", "derived"),
            ("counters",),
            ("alternatives",),
            ("constraints", "counters"),
            ("counters", "groups"),
            ("expressions",),
            ("counters", "expressions"),
            ("counters", "expressions", "groups"),
        )
    )
    return tying.flatmap(lambda always: worlds(features=CONTESTED, always=always, busy=True))


@st.composite
def worlds(
    draw: Draw, *, features: tuple[str, ...] = EVERYTHING, always: tuple[str, ...] = (), busy: bool = False
) -> World:
    """A world of one or two nodes. `always` names features that are always on."""
    chosen = draw(st.lists(st.sampled_from(features), unique=True, min_size=2, max_size=8))
    rules = draw(rule_sets())
    if "groups" in (*chosen, *always):
        rules = replace(rules, group_modes=draw(st.sampled_from(GROUP_MODES)))
    if "expressions" in (*chosen, *always):
        rules = replace(rules, exclusion_scopes=draw(st.sampled_from(SCOPES)))
    dice = Dice(draw, frozenset((*chosen, *always)), rules, busy)
    nodes = NODES if not busy and dice.chance(60) else NODES[:1]
    slices = [made for number in range(pool_count(dice)) for made in pool_slices(dice, number, nodes)]
    classes = _classes(dice)
    return World(
        slices=slices,
        claims=_claims(dice, classes),
        held=_held(dice, slices),
        classes=classes,
        nodes=[node(name, zone=ZONE[name]) for name in nodes],
        taint_rules=[drawn_taint_rule(dice)] if dice.chance(30, "taints") else [],
        rules=dice.rules,
    )


# -- supply


# -- what is held


def _held(dice: Dice, slices: list[Object]) -> list[Object]:
    if "held" not in dice.features:
        return []
    made = []
    published = [(s["spec"], d) for s in slices for d in s["spec"].get("devices", ())]
    for number, (spec, raw) in enumerate(published):
        if not dice.chance(15 if dice.busy else 30):
            continue
        fields: Object = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
        if dice.chance(15, "admin"):
            fields["adminAccess"] = True
        elif raw.get("allowMultipleAllocations") or dice.chance(8, "held"):
            # A share of a device that is published as dedicated now: the driver changed it (CAP-11).
            fields["shareID"] = f"held-{number}"
            consumed = {key: dice.one_of(("1", "2", "500m", "4")) for key in raw.get("capacity", {})}
            if consumed:
                fields["consumedCapacity"] = consumed
        made.append(held(f"h{number}", hold(raw["name"], **fields)))
    return made


# -- demand


def _classes(dice: Dice) -> list[Object]:
    config = [opaque(level=1)] if dice.chance(50, "configs") else []
    expressions = (
        PLAIN[5:6] if dice.chance(50) else (dice.one_of(RAISING),) if dice.chance(30, "errors") else ()
    )
    return [device_class("any"), device_class("some", *expressions, config=config)]


def _claims(dice: Dice, classes: list[Object]) -> list[Object]:
    count = dice.among(1, 3) if "claims" in dice.features else 1
    made = []
    for number in range(count):
        requests = [_request(dice, f"r{at}") for at in range(_request_count(dice, count))]
        names = [n for r in requests for n in _names(r)]
        constraints = [_constraint(dice, names) for _ in range(_constraint_count(dice))]
        if constraints and "derived" in dice.features:
            for wanted in [w for r in requests for w in r.get("firstAvailable", (r.get("exactly"),))]:
                _derive(dice, wanted)
        made.append(
            claim(
                f"c{number}",
                *requests,
                constraints=constraints,
                config=[
                    {"requests": dice.some_of(names, 2), **opaque(level=2)}
                    for _ in range(dice.among(0, 2) if "configs" in dice.features else 0)
                ],
            )
        )
    return made


def _request_count(dice: Dice, claims: int) -> int:
    if dice.busy:
        return dice.among(2, 4) if claims == 1 else dice.among(1, 3)
    return dice.among(1, 4 if claims == 1 else 2)


def _names(made: Object) -> list[str]:
    name = made["name"]
    return [name, *(f"{name}/{sub['name']}" for sub in made.get("firstAvailable", ()))]


def _constraint_count(dice: Dice) -> int:
    return dice.among(1, 2) if "constraints" in dice.features else 0


def _constraint(dice: Dice, names: list[str]) -> Object:
    kind = match if dice.chance(65) or not dice.rules.has(LISTS) else distinct
    attributes = (*CONSTRAINED, "derived/v") if "derived" in dice.features else CONSTRAINED
    return kind(dice.one_of(attributes), *dice.some_of(names, 2))


def _derive(dice: Dice, wanted: Object) -> None:
    """Derived attributes for a request, also some that no constraint uses: the allocator ignores those."""
    names = [name for name in ("derived/v", "d/m", "w.io/x") if dice.chance(60 if name[1] == "e" else 25)]
    made = [
        {"name": n, "expression": dice.one_of(DERIVED_RAISING if dice.chance(15) else DERIVED)} for n in names
    ]
    if made:
        wanted["derivedAttributes"] = made


def _request(dice: Dice, name: str) -> Object:
    if dice.chance(40, "alternatives"):
        subs = {f"a{at}": _wants(dice) for at in range(dice.among(1, 3))}
        return first_of(name, **subs)
    fields: Object = {}
    if dice.chance(25, "admin"):
        fields["adminAccess"] = dice.one_of((True, True, False))
    return {"name": name, "exactly": {**_wants(dice), **fields}}


def _wants(dice: Dice) -> Object:
    fields: Object = {"device_class": "some" if dice.chance(10 if dice.busy else 40) else "any"}
    expressions = []
    if dice.chance(25 if dice.busy else 45):
        expressions.append(dice.one_of(PLAIN))
    if dice.chance(10 if dice.busy else 25, "errors"):
        expressions.append(dice.one_of(RAISING))
    if expressions:
        fields["selectors"] = selectors(*expressions)
    if "taints" in dice.features:
        tolerations = dice.some_of(TOLERATIONS, 2)
        if tolerations:
            fields["tolerations"] = tolerations
    if dice.chance(50, "capacity"):
        keys = dice.some_of(("mem", "cores", "d/mem") if dice.chance(10) else ("mem", "cores"), 2)
        fields["capacity"] = {key: dice.one_of(AMOUNTS) for key in keys}
    count = None if dice.chance(30, "all") else dice.one_of((1, 1, 1, 2, 2, 3))
    return wants(count, **fields)


TINY = Scale(gpus=(2, 3), requests=(1, 4), shapes=SMALL)


@st.composite
def hard_worlds(draw: st.DrawFn, scale: Scale = TINY) -> World:
    """A question that is hard for its size (`perf.fleets.hard`)."""
    rnd = Random(draw(st.integers(0, 2**32)))
    family = draw(st.sampled_from(FAMILIES))
    event(family)
    return world_of(question(rnd, family, scale, draw(st.sampled_from((0.0, 0.5)))))
