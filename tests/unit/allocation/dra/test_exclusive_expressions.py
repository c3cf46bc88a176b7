"""Devices that say with which others they are compatible: how far expressions reach, and what fails."""

import pytest

from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, Semantics, with_exclusion_scopes
from reconciler.state.devices.exclusion_modes import problems
from tests.tools.allocation_world import NEW, World, decide, without
from tests.tools.builders import (
    Object,
    claim,
    device,
    held,
    hold,
    node,
    only,
    request,
    resource_slice,
    selectors,
)
from tests.tools.exclusive_twin import PAIRWISE, gpu, outcome, part, stating, wanting

FULL = stating("full", 'device.attributes["d"].physicalDevice != "dev-0"', physicalDevice="dev-0")
OTHER = device("other", {"id": "other", "physicalDevice": "dev-1"})
PARTITION = stating("part", 'device.attributes["d"].mode == "hw"', physicalDevice="dev-0", mode="hw")
TWIN = stating("twin", 'device.attributes["d"].mode == "hw"', physicalDevice="dev-0", mode="hw")
SOFT = device("soft", {"id": "soft", "physicalDevice": "dev-0", "mode": "sw"})
MODELESS = device("modeless", {"id": "modeless", "physicalDevice": "dev-0"})
PATTERNS = [resource_slice("s", [FULL, OTHER, PARTITION, TWIN, SOFT, MODELESS], nodeName="n")]


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        pytest.param("full", "other", True, id="another physical device"),
        pytest.param("full", "soft", False, id="the whole excludes every part of it"),
        pytest.param("part", "twin", True, id="the same mode"),
        pytest.param("part", "soft", False, id="another mode"),
        pytest.param("part", "modeless", False, id="an expression that fails"),
        pytest.param("soft", "modeless", True, id="no expressions"),
    ],
)
@pytest.mark.parametrize("rules", [NEW, PAIRWISE, without(COMPATIBILITY_GROUPS)])
def test_patterns_of_the_second_proposal(one: str, other: str, together: bool, rules: Semantics):
    """In both orders."""
    for wanted, before in ((one, other), (other, one)):
        found = outcome(wanting(wanted, before, rules=rules, slices=PATTERNS))
        assert found == (wanted if together else Reason.EXCLUDED)


def two_gpus(*parts: Object) -> Object:
    """One node with two physical devices, whose counter sets are `cs` and `other`."""
    made = gpu(*parts)
    made["spec"]["sharedCounters"].append({"name": "other", "counters": {"m": {"value": "152"}}})
    return made


SET_OF_HELD = device("a", {"id": "a"}, draws={"other": {"m": 1}}, compatibleOnlyWith={"expression": "false"})


@pytest.mark.parametrize(
    ("slices", "held_at", "expected"),
    [
        pytest.param(
            [gpu(part("x", 1), part("a", 1, compatibleOnlyWith={"expression": "false"}))],
            ("a", "p"),
            Reason.EXCLUDED,
            id="a common counter set",
        ),
        pytest.param(
            [gpu(part("x", 1)), gpu(part("a", 1, compatibleOnlyWith={"expression": "false"}), pool="q")],
            ("a", "q"),
            "x",
            id="counter sets of two pools",
        ),
        pytest.param(
            [resource_slice("s", [device("x", {"id": "x"}), stating("a", "false")], nodeName="n")],
            ("a", "p"),
            Reason.EXCLUDED,
            id="no counters: the pool",
        ),
        pytest.param(
            [
                resource_slice("s", [device("x", {"id": "x"})], nodeName="n"),
                resource_slice("t", [stating("a", "false")], pool="q", nodeName="n"),
            ],
            ("a", "q"),
            "x",
            id="no counters: two pools",
        ),
        pytest.param(
            [gpu(part("x", 1), stating("a", "false"))],
            ("a", "p"),
            Reason.EXCLUDED,
            id="one draws, one does not",
        ),
        pytest.param(
            [gpu(part("a", 1, compatibleOnlyWith={"expression": "false"}), device("x", {"id": "x"}))],
            ("a", "p"),
            Reason.EXCLUDED,
            id="the one that draws states it",
        ),
        pytest.param([two_gpus(part("x", 1), SET_OF_HELD)], ("a", "p"), "x", id="two counter sets of a pool"),
        pytest.param(
            [
                resource_slice(
                    "s",
                    [device("x", {"id": "x"}, nodeName="n"), stating("a", "false") | {"nodeName": "m"}],
                    perDeviceNodeSelection=True,
                )
            ],
            ("a", "p"),
            "x",
            id="nodes named by devices",
        ),
        pytest.param(
            [
                resource_slice(
                    "s",
                    [device("x", {"id": "x"}, nodeName="n"), stating("a", "false") | {"allNodes": True}],
                    perDeviceNodeSelection=True,
                )
            ],
            ("a", "p"),
            Reason.EXCLUDED,
            id="a device of all nodes beside one of a node",
        ),
        pytest.param(
            [
                resource_slice("s", [device("x", {"id": "x"})], slices=2, nodeName="n"),
                resource_slice("t", [stating("a", "false")], slices=2, nodeName="m"),
            ],
            ("a", "p"),
            "x",
            id="a pool of nodes: two nodes",
        ),
        pytest.param(
            [resource_slice("s", [device("x", {"id": "x"}), stating("a", "false")], allNodes=True)],
            ("a", "p"),
            Reason.EXCLUDED,
            id="a pool of the network",
        ),
    ],
)
def test_how_far_an_expression_reaches(
    slices: list[Object], held_at: tuple[str, str], expected: str | Reason
):
    named_x = selectors('"id" in device.attributes["d"] && device.attributes["d"].id == "x"')
    world = World(
        slices,
        [claim("c", request(selectors=named_x))],
        [held("h", hold(held_at[0], pool=held_at[1]))],
        nodes=[node("n"), node("m")],
    )
    assert outcome(world) == expected


DOCUMENTED = two_gpus(
    stating("device-full", 'device.attributes["d"].physicalDevice != "dev-0"', physicalDevice="dev-0"),
    part("dev-0-soft", 2),
    device("dev-1-soft", {"id": "dev-1-soft", "physicalDevice": "dev-1"}, draws={"other": {"m": 2}}),
)

DOCUMENTED["spec"]["devices"][1]["attributes"]["physicalDevice"] = {"string": "dev-0"}


@pytest.mark.parametrize(
    ("one", "other", "together"), [("device-full", "dev-0-soft", False), ("device-full", "dev-1-soft", True)]
)
def test_a_whole_device_without_counters_excludes_the_parts_that_draw_some(
    one: str, other: str, together: bool
):
    """Pattern 1 of the proposal, as it is written there: only the parts draw from counters."""
    for wanted, before in ((one, other), (other, one)):
        found = outcome(wanting(wanted, before, rules=NEW, slices=[DOCUMENTED]))
        assert found == (wanted if together else Reason.EXCLUDED)
    both = [claim(name, request(selectors=only(name))) for name in (one, other)]
    assert isinstance(decide(World([DOCUMENTED], both)), Granted if together else Unsatisfied)


def mode_part(gpu_number: int, mode: str, counter_set: str) -> Object:
    name = f"gpu-{gpu_number}-{mode}"
    expression = {"expression": f'device.attributes["d"].mode == "{mode}"'}
    attributes = {"id": name, "mode": mode}
    return device(name, attributes, draws={counter_set: {"m": 2}}, compatibleOnlyWith=expression)


@pytest.mark.parametrize(
    ("rules", "free"),
    [
        pytest.param(NEW, True, id="counter sets are physical devices"),
        pytest.param(
            Semantics(exclusion_scopes=with_exclusion_scopes(["d=pool"])), False, id="the whole pool"
        ),
        pytest.param(
            Semantics(exclusion_scopes=with_exclusion_scopes(["*=pool", "d=counter-set"])),
            True,
            id="the driver wins over all others",
        ),
    ],
)
def test_a_mode_of_one_gpu_leaves_the_other_gpu_of_the_node_free(rules: Semantics, free: bool):
    """Pattern 2 of the proposal."""
    parts = [mode_part(n, mode, cs) for n, cs in ((0, "cs"), (1, "other")) for mode in ("hw", "sw")]
    slices = [two_gpus(*parts)]
    assert outcome(wanting("gpu-0-sw", "gpu-0-hw", rules=rules, slices=slices)) == Reason.EXCLUDED
    assert outcome(wanting("gpu-1-hw", "gpu-0-hw", rules=rules, slices=slices)) == "gpu-1-hw"
    found = outcome(wanting("gpu-1-sw", "gpu-0-hw", rules=rules, slices=slices))
    assert found == ("gpu-1-sw" if free else Reason.EXCLUDED)


@pytest.mark.parametrize(
    ("expression", "together"),
    [
        pytest.param("[1, 2].exists(n, n == device.attributes['d'].size)", True, id="a macro"),
        pytest.param("device.attributes['d'].size / 0 == 1", False, id="fails on the row"),
        pytest.param("device.attributes['d'].sizes.size() > 0", False, id="no such attribute"),
        pytest.param("device.attributes['d'].size == 2 || 1 / 0 == 1", True, id="decided before the error"),
        pytest.param("device.nonsense", False, id="does not compile"),
    ],
)
def test_what_has_no_columns_goes_to_the_plain_evaluator(expression: str, together: bool):
    """Across a device that draws and one that does not; an error counts as incompatible."""
    slices = [gpu(stating("a", expression), part("x", 1))]
    slices[0]["spec"]["devices"][1]["attributes"]["size"] = {"int": 2}
    for wanted, before in (("a", "x"), ("x", "a")):
        found = outcome(wanting(wanted, before, rules=NEW, slices=slices))
        assert found == (wanted if together else Reason.EXCLUDED)


def test_an_expression_that_cannot_be_read_excludes_everything_else_and_is_reported():
    slices = [resource_slice("s", [stating("a", "no CEL"), device("x", {"id": "x"})], nodeName="n")]
    assert outcome(wanting("a", rules=NEW, slices=slices)) == "a"
    assert outcome(wanting("x", "a", rules=NEW, slices=slices)) == Reason.EXCLUDED
    (problem,) = problems(World(slices, []).snapshot())
    assert problem.startswith("d/p/a: compatibleOnlyWith: ")


def test_an_expression_that_fails_is_reported_with_the_device_and_why():
    (problem,) = problems(World(PATTERNS, []).snapshot())
    assert problem == "d/p/part: compatibleOnlyWith fails on full, and on 2 more: no such key: mode"


def test_no_expression_is_judged_against_its_own_device():
    """Neither as a candidate, nor with administrative access to held devices."""
    alone = [resource_slice("s", [stating("a", 'device.attributes["d"].id != "a"')], nodeName="n")]
    assert outcome(wanting("a", rules=NEW, slices=alone)) == "a"
    looking = World(alone, [claim("c", request(adminAccess=True))], [held("h", hold("a"))])
    assert outcome(looking) == "a"


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", "has an empty expression"),
        (" ", "has an empty expression"),
        ("devise.driver == 'd'", "does not compile"),
    ],
)
def test_an_expression_that_cannot_be_read_is_the_reason(expression: str, told: str):
    """Whether the held device says it, or the wanted one. It never means `without a group`."""
    slices = [resource_slice("s", [stating("a", expression), device("x", {"id": "x"})], nodeName="n")]
    for wanted, before in (("x", "a"), ("a", "x")):
        refused = decide(wanting(wanted, before, rules=NEW, slices=slices))
        assert isinstance(refused, Unsatisfied)
        assert refused.reason is Reason.EXCLUDED
        assert told in refused.message
        assert "is compatible with no other device: its compatibleOnlyWith" in refused.message
        assert "without a group" not in refused.message
