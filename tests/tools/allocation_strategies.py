"""Small worlds with scarce devices: requests need about as many devices as exist, and compete for them.

Every world enables some features only, so that all pairs of features occur and none hides the others.
Worlds are valid as far as the API server checks them.
"""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.semantics import Semantics, with_exclusion_scopes, with_group_modes
from tests.tools.allocation_world import NEW, OLD, World, without
from tests.tools.builders import (
    Object,
    amount,
    claim,
    counter_slice,
    device,
    device_class,
    distinct,
    first_of,
    held,
    hold,
    labelled,
    match,
    node,
    node_selector,
    opaque,
    resource_slice,
    selectors,
    taint,
    taint_rule,
    version,
    wants,
)

Draw = st.DrawFn

GROUP_MODES = (
    with_group_modes([]),
    with_group_modes(["*=pairwise"]),
    with_group_modes(["e=pairwise"]),
    with_group_modes(["*=kep-5963"]),
)
SCOPES = (with_exclusion_scopes([]), with_exclusion_scopes(["*=pool"]), with_exclusion_scopes(["e=pool"]))

NODES = ("n", "m")
ZONE = {"n": "a", "m": "b"}
LISTS = "DRAListTypeAttributes"

EVERYTHING = (
    "attributes",
    "constraints",
    "counters",
    "capacity",
    "taints",
    "admin",
    "alternatives",
    "all",
    "errors",
    "pools",
    "trouble",
    "places",
    "bindings",
    "configs",
    "claims",
    "held",
    "groups",
    "expressions",
)

CONTESTED = (
    "attributes",
    "constraints",
    "counters",
    "capacity",
    "admin",
    "alternatives",
    "all",
    "errors",
    "claims",
    "held",
    "taints",
    "groups",
    "expressions",
)

VALUES: tuple[Any, ...] = (
    "a",
    "b",
    1,
    2,
    True,
    False,
    version("1.0.0"),
    version("1.0.0+x"),
    ["a"],
    ["a", "b"],
    ["b", "c"],
    [1, 2],
    {"versions": ["1.0.0", "2.0.0"]},
)
"""1 and true, "1.0.0" and 1.0.0+x, "a" and ["a"]: equality depends on the rule."""

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

COMPATIBLE = (
    'device.attributes["d"].kind == "k1"',
    'device.attributes["d"].kind != "k1"',
    'device.attributes["d"].m == "a"',
    'device.attributes["d"].?m.orValue("a") != "b"',
    "device.allowMultipleAllocations",
    '["k1", "k3"].exists(k, k == device.attributes["d"].kind)',
    '1 / (device.attributes["d"].kind == "k1" ? 0 : 1) == 1',
    "true",
    "device.nonsense",
)
"""Expressions of devices about devices held in the same group; some fail on some devices"""

POLICIES: tuple[Object, ...] = (
    {},
    {"default": "1"},
    {"default": "2", "validRange": {"min": "2"}},
    {"default": "1", "validRange": {"min": "1", "step": "2"}},
    {"default": "1", "validRange": {"min": "1", "max": "3"}},
    {"default": "500m", "validRange": {"min": "500m", "max": "3", "step": "500m"}},
    {"default": "2", "validValues": ["2", "4"]},
)
AMOUNTS = ("1", "2", "3", "5", "9", "1500m", "100u")
TAINTS = (taint("k"), taint("k", "NoExecute", "v"), taint("l"), taint("k", "None"))
TOLERATIONS: tuple[Object, ...] = (
    {"key": "k", "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"},
    {"key": "l", "operator": "Exists", "effect": "NoSchedule"},
)


@dataclass(frozen=True)
class Dice:
    """Draws, and the features that are on in this world."""

    draw: Draw
    features: frozenset[str]
    rules: Semantics
    busy: bool
    """More devices and requests, fewer reasons that exclude a device from the start"""

    def chance(self, percent: int, *features: str) -> bool:
        """False unless all of the features are on."""
        if not self.features.issuperset(features):
            return False
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def among(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one_of(self, options: Any) -> Any:
        return self.draw(st.sampled_from(tuple(options)))

    def some_of(self, options: Any, most: int) -> list[Any]:
        places = self.draw(st.lists(st.integers(0, len(options) - 1), max_size=most, unique=True))
        return [options[at] for at in places]


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
    slices = [made for number in range(_pool_count(dice)) for made in _pool(dice, number, nodes)]
    classes = _classes(dice)
    return World(
        slices=slices,
        claims=_claims(dice, classes),
        held=_held(dice, slices),
        classes=classes,
        nodes=[node(name, zone=ZONE[name]) for name in nodes],
        taint_rules=[_taint_rule(dice)] if dice.chance(30, "taints") else [],
        rules=dice.rules,
    )


# -- supply


def _pool_count(dice: Dice) -> int:
    return dice.among(1, 3) if "pools" in dice.features else 1


def _pool(dice: Dice, number: int, nodes: tuple[str, ...]) -> list[Object]:
    """The slices of one pool: often one, sometimes two, counters apart."""
    driver = dice.one_of(("d", "d", "e")) if number else "d"
    where: Any = {"driver": driver, "pool": f"p{number}", "generation": dice.among(1, 2)}
    place = _place(dice, nodes)
    pieces = 2 if dice.chance(25) else 1
    sets = _counter_sets(dice)
    total = pieces + bool(sets)
    # Wrong counts together with counters have named cases: the draws of foreign slices are unclear there.
    wrong = dice.one_of((0, 0, -1, 1)) if dice.chance(40, "trouble") and pieces > 1 and not sets else 0
    made = []
    letters = iter("ABCDEFGH")
    for piece in range(pieces):
        spot = _place(dice, nodes) if dice.chance(30, "places") else place
        content = [
            _device(dice, next(letters), sets, nodes, apart="perDeviceNodeSelection" in spot)
            for _ in range(dice.among(*_device_counts(dice, pieces)))
        ]
        if piece and dice.chance(20, "trouble"):
            content[0]["name"] = "A"
        if dice.rules.release == "1.37" and dice.chance(5, "trouble"):
            spot = {**spot, "skipNodeOperations": ["*"]}
        made.append(resource_slice(f"s{number}-{9 - piece}", content, slices=total + wrong, **where, **spot))
    if sets:
        spot = _place(dice, nodes) if dice.chance(20, "places") else place
        made.append(counter_slice(f"s{number}-c", sets, slices=total + wrong, **where, **_whole(spot)))
    if dice.chance(15, "trouble"):
        spot = _whole(_place(dice, nodes))
        generation = where["generation"] + dice.one_of((-1, 1))
        older = {**where, "generation": generation}
        made.append(resource_slice(f"s{number}-g", [device("Z", {"kind": "k1"})], **older, **spot))
    return dice.draw(st.permutations(made)) if len(made) > 1 else made


def _device_counts(dice: Dice, pieces: int) -> tuple[int, int]:
    if dice.busy:
        return (2, 4) if pieces == 2 else (3, 6)
    return (1, 2) if pieces == 2 else (1, 4)


def _place(dice: Dice, nodes: tuple[str, ...]) -> Object:
    """The nodes of a slice."""
    local: Object = {"nodeName": dice.one_of(nodes)}
    if "places" not in dice.features:
        return local
    zone = node_selector(labelled("zone", *dice.one_of((("a",), ("b",), ("a", "b")))))
    return dice.one_of((local, {"allNodes": True}, {"nodeSelector": zone}, {"perDeviceNodeSelection": True}))


def _whole(place: Object) -> Object:
    """The nodes of a slice without devices."""
    return {"allNodes": True} if "perDeviceNodeSelection" in place else place


def _counter_sets(dice: Dice) -> dict[str, dict[str, int]]:
    if "counters" not in dice.features:
        return {}
    sets = {"g": {"m": dice.among(1, 6)}}
    if dice.chance(40):
        sets["g"]["s"] = dice.among(0, 3)
    if dice.chance(40):
        sets["h"] = {"m": dice.among(1, 4)}
    return sets


def _device(
    dice: Dice, name: str, sets: dict[str, dict[str, int]], nodes: tuple[str, ...], *, apart: bool
) -> Object:
    attributes: Object = {"kind": dice.one_of(("k1", "k2"))}
    if "attributes" in dice.features or "constraints" in dice.features:
        several = VALUES if dice.chance(30) else ("a", "b")
        if dice.chance(90):
            attributes[dice.one_of(("m", "m", "d/m"))] = dice.one_of(several)
        if dice.chance(60):
            attributes["w.io/x"] = dice.one_of(several)
    fields: Object = {}
    if dice.chance(15 if dice.busy else 40, "taints"):
        fields["taints"] = dice.some_of(TAINTS, 2)
    if dice.chance(30, "bindings"):
        fields["bindingConditions"] = ["ready"]
        fields["bindingFailureConditions"] = ["broken"]
    if dice.chance(20, "bindings"):
        fields["bindsToNode"] = True
    if apart:
        fields |= _device_place(dice, nodes)
    if dice.chance(35, "expressions"):
        fields["compatibleOnlyWith"] = {"expression": dice.one_of(COMPATIBLE)}
    made = device(name, attributes, _capacity(dice, fields), _draws(dice, sets), **fields)
    for entry in made.get("consumesCounters", ()):
        if dice.chance(70, "groups"):
            entry["compatibilityGroups"] = dice.some_of("abc", 2)
    return made


def _device_place(dice: Dice, nodes: tuple[str, ...]) -> Object:
    zones = [labelled("zone", zone) for zone in dice.one_of((("a",), ("b",), ("a", "b")))]
    return dice.one_of(
        ({"nodeName": dice.one_of(nodes)}, {"allNodes": True}, {"nodeSelector": node_selector(*zones)})
    )


def _capacity(dice: Dice, fields: Object) -> Object:
    if "capacity" not in dice.features:
        return {}
    if dice.chance(60):
        fields["allowMultipleAllocations"] = True
    found = {}
    for key in dice.some_of(("mem", "cores"), 2):
        policy = dice.one_of(POLICIES) if "allowMultipleAllocations" in fields else {}
        found[key] = amount(str(dice.among(4, 9)), **policy)
    return found


def _draws(dice: Dice, sets: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    if not sets or dice.chance(15):
        return {}
    drawn = {name: dict(counters) for name, counters in sets.items() if dice.chance(75)}
    for counters in drawn.values():
        for name in counters:
            counters[name] = dice.among(0, 4)
    if dice.chance(3, "trouble"):
        drawn["nowhere"] = {"m": 1}
    return drawn


def _taint_rule(dice: Dice) -> Object:
    selector = dice.one_of(({}, {"driver": "d"}, {"device": "B"}, {"pool": "p0", "device": "A"}, None))
    return taint_rule("rule", selector, dice.one_of(TAINTS))


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
        made.append(
            claim(
                f"c{number}",
                *requests,
                constraints=[_constraint(dice, names) for _ in range(_constraint_count(dice))],
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
    return kind(dice.one_of(("d/m", "d/m", "w.io/x")), *dice.some_of(names, 2))


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
