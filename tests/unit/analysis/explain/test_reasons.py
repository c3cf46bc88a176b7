"""One table of reasons: complete, bounded, and the page made from it is current."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.allocation.explanation import Explanation
from reconciler.allocation.gangs import kinds as gang_refusals
from reconciler.allocation.reason_table import REASONS, UNKNOWN, remedy
from reconciler.analysis.explain.explain import as_json, explain
from reconciler.api.migrate import special_claims
from reconciler.api.objects.plan import Reason
from reconciler.control import planner, settler
from reconciler.operations.findings import NOT_MANAGED
from reconciler.plugins.koordinator import handler, refusals
from reconciler.plugins.koordinator.reasons import IN_A_GANG
from reconciler.state.on_demand import NOT_LISTED, NOT_READABLE
from reconciler.state.pods import groups
from tests.tools.allocation_world import World
from tests.tools.builders import Object, claim, device, held, hold, request, resource_slice, selectors
from tests.tools.checkout import ROOT


def blocking() -> Iterator[str]:
    """The reasons that the planner gives: the second argument of every `Blocked`."""
    for found in ast.walk(ast.parse(Path(planner.__file__).read_text())):
        if isinstance(found, ast.Call) and getattr(found.func, "id", "") == "Blocked":
            given = found.args[1]
            if isinstance(given, ast.Constant):
                yield str(given.value)
            elif isinstance(given, ast.Name) and hasattr(planner, given.id):
                yield str(getattr(planner, given.id))


def of_koordinator() -> Iterator[str]:
    """The first part of the reason of every `Failure`, as a word."""
    for path in (ROOT / "reconciler").glob("*/koordinator/*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            if isinstance(found, ast.Call) and getattr(found.func, "id", "") == "Failure":
                given = found.args[0]
                part = given.values[0] if isinstance(given, ast.JoinedStr) else given
                assert isinstance(part, ast.Constant)
                words = str(part.value).partition(":")[0].split("-")
                yield "".join(word.capitalize() for word in words)


def test_every_reason_that_can_be_told_is_in_the_table():
    known = {
        *map(str, Reason),
        planner.NOT_OURS,
        planner.LEFT,
        planner.SEVERAL,
        *blocking(),
        *of_koordinator(),
        refusals.BOTH,
        handler.HELD,
        NOT_MANAGED,
        NOT_LISTED,
        NOT_READABLE,
        settler.NOT_BOUND,
        settler.UNUSABLE,
        *(special_claims.OFF, special_claims.UNSAFE),
        *(groups.INCOMPLETE, IN_A_GANG, groups.NOT_FOUND, groups.INVALID, groups.DISAGREE),
        *(gang_refusals.UNPLACED, gang_refusals.NO_TOPOLOGY),
    }
    assert len(set(blocking())) >= 5
    assert known == set(map(str, REASONS))


@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_reason_is_a_camel_case_word_with_meaning_and_remedy(reason: str):
    assert re.fullmatch(r"[A-Z][A-Za-z]+", reason)
    assert len(reason) <= 128  # what an Event can hold
    advice = REASONS[reason]
    assert advice.meaning.endswith(".")
    assert advice.remedy.endswith(".")


def test_what_is_not_in_the_table_refers_to_the_message():
    assert remedy("SomethingNew") == UNKNOWN.remedy


# -- Of requests that compete, the counter that decides is named, not those that are short for one device.


GPU = {"multiprocessors": 98, "memory": 80, "copy-engines": 7, "encoders": 7, "ofa-engines": 7, "decoders": 5}


def mig(at: str, profile: str, size: int, decoders: int) -> Object:
    """A partition that takes `size` sevenths of everything but the decoders."""
    draws = {name: total * size // 7 for name, total in GPU.items()} | {"decoders": decoders}
    return device(at, {"profile": profile}, draws={"gpu-0": draws})


def gpu() -> Object:
    """Small partitions with a decoder each, media partitions with two, and one partition of everything."""
    small = [mig(f"small-{n}", "1g", 1, 1) for n in range(4)]
    media = [mig(f"media-{n}", "1g.me", 1, 2) for n in range(3)]
    made = resource_slice("s", [*small, *media, mig("all", "7g", 7, 5)], nodeName="n")
    totals = {name: {"value": str(total)} for name, total in GPU.items()}
    made["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": totals}]
    return made


def profile(*names: str) -> list[Object]:
    return selectors(f"device.attributes['d'].profile in {list(names)}")


HELD = held("other", hold("small-0"))


def explanation_of(*requests: Object) -> Explanation:
    world = World([gpu()], [claim("c", *requests)], [HELD])
    return explain(world.wanted(), world.snapshot())


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([request("r", 3, selectors=profile("1g.me", "7g"))], id="one request for three"),
        pytest.param(
            [request(f"r{n}", selectors=profile("1g.me", "7g")) for n in range(3)],
            id="three requests for one",
        ),
    ],
)
def test_the_deciding_counter_is_named(requests: list[Object]):
    """The partition of everything is short of five counters that do not matter."""
    found = explanation_of(*requests)
    assert found.reason == "RequestsCompete"
    assert {short.counter for short in found.requests[0].shortages} == set(GPU)
    (short,) = found.deciding
    assert (short.counter, short.set, str(short.wanted), str(short.left)) == ("decoders", "gpu-0", "6", "4")
    assert [str(key) for key in short.holders] == ["default/other"]
    text = (
        "counter decoders of set gpu-0 in d/p on node n: together they need 6, 4 free, held by default/other"
    )
    assert str(short) == text
    assert f"decided by {text}" in found.short()
    (written,) = as_json(found)["decidingCounters"]
    told = (written["counter"], written["wanted"], written["left"], written["node"])
    assert told == ("decoders", "6", "4", "n")


def test_what_counters_do_not_decide_names_none():
    """More partitions than there are."""
    found = explanation_of(request("r", 2, selectors=profile("1g")), request("q", 2, selectors=profile("1g")))
    assert found.reason == "RequestsCompete"
    assert found.deciding == ()
