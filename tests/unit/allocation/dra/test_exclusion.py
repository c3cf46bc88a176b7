"""Devices that exclude one another: the examples of the proposal, differences of the modes, and messages."""

from dataclasses import replace

import pytest

from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.semantics import COMPATIBILITY_GROUPS, Semantics, with_group_modes
from reconciler.state.devices.exclusion_modes import conflicts, modes
from tests.tools.allocation_world import NEW, World, asks, decide, picks, without
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    held,
    hold,
    node,
    only,
    request,
    resource_slice,
    selectors,
    store,
)
from tests.tools.exclusive_twin import PAIRWISE, gpu, outcome, part, stating, wanting

# -- the example of the first proposal

PROPOSAL = [
    gpu(
        part("gpu-1", 152),
        part("gpu-1-mig1", 2, "mig"),
        part("gpu-1-foo-part", 17, "foo", "bar"),
        part("gpu-1-bar-part", 2, "bar"),
    )
]


@pytest.mark.parametrize(
    ("wanted", "other", "expected"),
    [
        ("gpu-1-mig1", "gpu-1", Reason.COUNTERS),
        ("gpu-1-mig1", "gpu-1-foo-part", Reason.EXCLUDED),
        ("gpu-1-foo-part", "gpu-1", Reason.COUNTERS),
        ("gpu-1-foo-part", "gpu-1-mig1", Reason.EXCLUDED),
        ("gpu-1-foo-part", "gpu-1-bar-part", "gpu-1-foo-part"),
        ("gpu-1-bar-part", "gpu-1", Reason.COUNTERS),
        ("gpu-1-bar-part", "gpu-1-mig1", Reason.EXCLUDED),
        ("gpu-1-bar-part", "gpu-1-foo-part", "gpu-1-bar-part"),
    ],
)
def test_the_proposal_comes_out_as_its_comments_say(wanted: str, other: str, expected: str | Reason):
    assert outcome(wanting(wanted, other, rules=PAIRWISE, slices=PROPOSAL)) == expected


# -- where the modes differ

A, B, C = ("a", "b"), ("b", "c"), ("a", "c")


@pytest.mark.parametrize(
    ("before", "candidate", "kep", "pairwise"),
    [
        pytest.param([], ("a",), True, True, id="nothing is held"),
        pytest.param([("a",)], ("a",), True, True, id="the same group"),
        pytest.param([("a",)], ("b",), False, False, id="another group"),
        pytest.param([A], B, True, True, id="ab bc"),
        pytest.param([A, B], C, False, True, id="ab bc ac: each pair shares one, all three share none"),
        pytest.param([("a",)], (), False, True, id="without groups beside a group"),
        pytest.param([()], ("a",), False, True, id="a group beside one without groups"),
        pytest.param([()], (), True, True, id="without groups both"),
        pytest.param([("a",), ("b",)], ("a",), False, False, id="held at odds: a and b"),
        pytest.param([("a",), ("b",)], A, False, True, id="held at odds, but it goes with each"),
        pytest.param([("a",), ("b",)], (), False, True, id="held at odds, and none"),
        pytest.param([("a",), ()], ("a",), False, True, id="held at odds: a group and none"),
    ],
)
def test_modes_of_groups(
    before: list[tuple[str, ...]], candidate: tuple[str, ...], kep: bool, pairwise: bool
):
    parts = [part(f"h{at}", 1, *groups) for at, groups in enumerate(before)]
    slices = [gpu(*parts, part("x", 1, *candidate))]
    names = [f"h{at}" for at in range(len(before))]
    for rules, expected in ((NEW, kep), (PAIRWISE, pairwise)):
        found = outcome(wanting("x", *names, rules=rules, slices=slices))
        assert found == ("x" if expected else Reason.EXCLUDED)


def test_a_mode_is_chosen_per_driver():
    slices = [gpu(part("a", 1, "g"), part("x", 1))]
    for modes_, expected in ((["d=pairwise"], "x"), (["e=pairwise"], Reason.EXCLUDED)):
        rules = Semantics(group_modes=with_group_modes([*modes_]))
        assert outcome(wanting("x", "a", rules=rules, slices=slices)) == expected
    both = Semantics(group_modes=with_group_modes(["*=pairwise", "d=kep-5963"]))
    assert outcome(wanting("x", "a", rules=both, slices=slices)) == Reason.EXCLUDED


@pytest.mark.parametrize("rules", [NEW, PAIRWISE])
def test_more_than_64_groups_are_told_apart(rules: Semantics):
    slices = [gpu(*(part(f"d{at}", 1, f"g{at}") for at in range(130)), part("x", 1, "g129", "more"))]
    assert outcome(wanting("x", "d129", rules=rules, slices=slices)) == "x"
    assert outcome(wanting("x", "d128", rules=rules, slices=slices)) == Reason.EXCLUDED


def test_a_device_must_be_let_in_by_each_set_it_draws_from():
    both = device("x", {"id": "x"}, draws={"g": {"m": 1}, "h": {"m": 1}})
    both["consumesCounters"][1]["compatibilityGroups"] = ["a"]
    other = device("y", draws={"h": {"m": 1}})
    other["consumesCounters"][0]["compatibilityGroups"] = ["b"]
    slices = [
        resource_slice("s", [both, other], slices=2, nodeName="n"),
        counter_slice("t", {"g": {"m": 9}, "h": {"m": 9}}, slices=2, nodeName="n"),
    ]
    assert outcome(wanting("x", "y", rules=NEW, slices=slices)) == Reason.EXCLUDED
    assert outcome(wanting("x", rules=NEW, slices=slices)) == "x"


def test_without_the_gate_grouped_devices_and_what_is_beside_them_are_left_out():
    slices = [gpu(part("a", 1, "g"), part("x", 1)), gpu(part("y", 1), pool="q")]
    rules = without(COMPATIBILITY_GROUPS)
    assert outcome(wanting("a", rules=rules, slices=slices)) == Reason.GATE_OFF
    assert outcome(wanting("x", rules=rules, slices=slices)) == "x"
    assert outcome(wanting("x", "a", rules=rules, slices=slices)) == Reason.EXCLUDED
    assert outcome(wanting("y", "a", rules=rules, slices=slices)) == "y"


# -- one claim, several claims, shares, administrative access


def test_administrative_access_holds_nothing():
    slices = [gpu(part("a", 1, "mig"), part("x", 1, "foo"))]
    looking = held("h", hold("a", adminAccess=True))
    world = World(slices, asks(request(selectors=only("x"))), [looking])
    assert outcome(world) == "x"


def test_a_share_is_judged_once():
    """A device held before the slice changed keeps giving shares; a first share is checked."""
    shared = [part(name, 1, group, allowMultipleAllocations=True) for name, group in (("a", "x"), ("b", "y"))]
    world = World(
        [gpu(*shared)],
        asks(request(selectors=only("b"))),
        [held("h", hold("a", shareID="1")), held("i", hold("b", shareID="2"))],
    )
    assert outcome(world) == "b"
    assert outcome(replace(world, held=world.held[:1])) == Reason.EXCLUDED


def test_claims_of_other_namespaces_count():
    other = held("h", hold("a"))
    other["metadata"]["namespace"] = "elsewhere"
    slices = [gpu(part("a", 1, "mig"), part("x", 1, "foo"))]
    found = decide(World(slices, asks(request(selectors=only("x"))), [other]))
    assert isinstance(found, Unsatisfied)
    assert found.message.endswith("excluded: 1 device on 1 node: a is held by elsewhere/h with group mig")


# -- what is said


def test_a_refusal_names_the_device_its_mode_and_the_claim():
    slices = [gpu(part("gpu-1", 1, "mig"), *(part(f"x{n}", 1, "foo") for n in range(12)))]
    slices += [gpu(part("y", 1, "foo", "z"), pool="q", on="m")]
    world = World(
        slices,
        asks(request(selectors=selectors('device.attributes["d"].id.startsWith("x")'))),
        [held("train-7", hold("gpu-1"))],
        nodes=[node("n"), node("m")],
    )
    found = decide(world)
    assert isinstance(found, Unsatisfied)
    assert found.reason is Reason.EXCLUDED
    assert "12 devices on 1 node: gpu-1 is held by default/train-7 with group mig" in found.message


@pytest.mark.parametrize(
    ("devices", "before", "wanted", "text"),
    [
        pytest.param(
            [part("a", 1), part("x", 1, "g")],
            ["a"],
            "x",
            "a is held by default/h-a without a group",
            id="no groups",
        ),
        pytest.param(
            [part("a", 1, "p", "q"), part("b", 1, "q", "r"), part("x", 1, "p", "r")],
            ["a", "b"],
            "x",
            "no group is common to it and all held devices (a is held by default/h-a with groups p, q; "
            "b is held by default/h-b with groups q, r)",
            id="only together",
        ),
        pytest.param(
            [stating("a", "false"), device("x", {"id": "x"})],
            ["a"],
            "x",
            "a is held by default/h-a and compatible only with false",
            id="an expression of what is held",
        ),
        pytest.param(
            [part("a", 1, "g", compatibleOnlyWith={"expression": "false"}), part("x", 1, "g")],
            ["a"],
            "x",
            "a is held by default/h-a and compatible only with false",
            id="an expression of what is held, which is of the same group",
        ),
        pytest.param(
            [device("a", {"id": "a"}), stating("x", "false")],
            ["a"],
            "x",
            "x is compatible only with false, and a is held by default/h-a",
            id="an expression of its own",
        ),
    ],
)
def test_what_stands_against_a_device(devices: list[Object], before: list[str], wanted: str, text: str):
    found = decide(wanting(wanted, *before, rules=NEW, slices=[gpu(*devices)]))
    assert isinstance(found, Unsatisfied)
    assert text in found.message


def test_modes_tell_what_is_held_and_locked_out():
    slices = [gpu(part("a", 1, "mig"), part("b", 1, "mig"), part("x", 1, "foo")), gpu(part("z", 1), pool="q")]
    world = World(slices, [], [held("h", hold("a"))])
    (mode,) = modes(world.snapshot())
    assert (str(mode.pool), mode.scope, mode.node) == ("d/p", "cs", "n")
    assert [str(one) for one in mode.held] == ["a is held by default/h with group mig"]
    assert mode.locked_out == ("x",)
    assert mode.conflicts == ()


def test_a_slice_edited_under_what_is_held_takes_nothing_away_and_is_reported():
    before = gpu(part("a", 1, "mig"), part("b", 1, "mig"), part("x", 1, "mig"))
    after = gpu(part("a", 1, "mig"), part("b", 1, "foo"), part("x", 1, "mig"))
    holders = [held("h", hold("a")), held("i", hold("b"))]
    wanted = asks(request(selectors=only("x")))
    assert outcome(World([before], wanted, holders)) == "x"
    edited = World([after], wanted, holders)
    assert outcome(edited) == Reason.EXCLUDED
    (conflict,) = conflicts(edited.snapshot())
    text = "d/p cs: a is held by default/h with group mig, but b is held by default/i with group foo"
    assert conflict.message == text
    assert [claim.name for claim in conflict.claims] == ["h", "i"]
    picture = store(node("n"), before, *holders)
    assert conflicts(picture.snapshot()) == []


def test_a_fleet_without_groups_and_expressions_keeps_no_columns_for_them():
    seen = World([gpu(part("a", 1), part("b", 1))], []).snapshot()
    assert seen.fleet.exclusion is None
    assert seen.occupancy.open is None


def test_a_whole_device_that_uses_up_its_counters_is_the_reason_not_its_groups():
    """Both are true, and only one of them says what to wait for."""
    whole = gpu(part("whole", 152), part("a", 2, "x"), part("b", 2))
    for wanted in ("a", "b"):
        assert outcome(wanting(wanted, "whole", rules=Semantics(), slices=[whole])) == Reason.COUNTERS
    assert outcome(wanting("a", "b", rules=Semantics(), slices=[whole])) == Reason.EXCLUDED


def test_a_search_turns_back_over_exclusion():
    """A search that skips equal devices must not treat these as equal."""
    slices = [gpu(part("a", 1, "x"), part("b", 1, "x", "y"), part("c", 1, "y"), part("d", 1, "y"))]
    found = decide(World(slices, asks(request("r", 2), request("q", selectors=only("d")))))
    assert isinstance(found, Granted)
    assert picks(found.plans) == [[("r", "d/p/b"), ("r", "d/p/c"), ("q", "d/p/d")]]
