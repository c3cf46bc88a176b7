"""Of requests that compete, the counter that decides is named, not those that are short for one device."""

import pytest

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.analysis.explain.explain import explain
from reconciler.analysis.explain.report import as_json
from tests.tools.allocation_world import World
from tests.tools.builders import Object, claim, device, held, hold, request, resource_slice, selectors

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
    assert (written["counter"], written["wanted"], written["left"], written["node"]) == (
        "decoders",
        "6",
        "4",
        "n",
    )


def test_what_counters_do_not_decide_names_none():
    """More partitions than there are."""
    found = explanation_of(request("r", 2, selectors=profile("1g")), request("q", 2, selectors=profile("1g")))
    assert found.reason == "RequestsCompete"
    assert found.deciding == ()
