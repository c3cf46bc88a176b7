"""Random pools: slices with counters, capacity, taints and the nodes that reach their devices."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.semantics import Semantics
from tests.tools.builders import (
    Object,
    amount,
    counter_slice,
    device,
    labelled,
    node_selector,
    resource_slice,
    selectors,
    taint,
    taint_rule,
    version,
)

Draw = st.DrawFn


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


NODES = ("n", "m")

ZONE = {"n": "a", "m": "b"}

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

TAINTS = (taint("k"), taint("k", "NoExecute", "v"), taint("l"), taint("k", "None"))


def pool_count(dice: Dice) -> int:
    return dice.among(1, 3) if "pools" in dice.features else 1


def pool_slices(dice: Dice, number: int, nodes: tuple[str, ...]) -> list[Object]:
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
    if len(made) > 1 and dice.chance(10, "trouble"):
        made[dice.among(0, len(made) - 1)]["spec"]["pool"]["resourceSliceCount"] += 1
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


def drawn_taint_rule(dice: Dice) -> Object:
    names: tuple[Object, ...] = ({}, {"driver": "d"}, {"device": "B"}, {"pool": "p0", "device": "A"})
    selector: Object = dict(dice.one_of(names))
    if dice.chance(25):
        selector["deviceClassName"] = dice.one_of(("any", "some", "missing"))
    if dice.chance(25):
        selector["selectors"] = selectors(dice.one_of(COMPATIBLE))
    return taint_rule("rule", None if dice.chance(15) else selector, dice.one_of(TAINTS))
