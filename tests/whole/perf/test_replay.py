"""A scenario is played as its file says: objects, nodes in order, steps."""

import json

import pytest

from perf.fleets import gpus
from perf.fleets.objects import claim, exactly
from perf.replay import replay
from reconciler.errors import Malformed


def scenario(nodes=("node-0",), gpus_a_node=2, **other):
    fleet = {
        "deviceClasses": [thing for thing in gpus.fleet(1) if thing["kind"] == "DeviceClass"],
        "resourceSlices": [part for name in nodes for part in gpus.node_slices(name, gpus_a_node)],
        "nodes": [{"metadata": {"name": name}} for name in nodes],
    }
    return {**fleet, **other}


def a_claim(name, count=1):
    return claim(name, [exactly("r", gpus.CLASS, count=count)])


def first_of(name, *models):
    """A claim of one GPU of the first model there is."""
    alternatives = [
        {
            "name": model.lower(),
            "deviceClassName": gpus.CLASS,
            "selectors": [{"cel": {"expression": f"device.attributes['{gpus.DRIVER}'].model == '{model}'"}}],
        }
        for model in models
    ]
    return claim(name, [{"name": "r", "firstAvailable": alternatives}])


@pytest.fixture
def play(tmp_path):
    def played(content):
        path = tmp_path / "scenario.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return replay(path, lambda *_: None).to_json()

    return played


def taken(summary):
    return [(one["claim"], one["node"], one["device"]) for one in summary["devices"]]


def test_without_steps_all_claims_are_allocated_in_order(play):
    summary = play(scenario(claims=[a_claim("b"), a_claim("a"), a_claim("c")]))
    assert taken(summary) == [("default/b", "node-0", "gpu-0"), ("default/a", "node-0", "gpu-1")]
    assert (summary["allocated"], summary["failed"]) == (2, 1)


def test_what_is_released_can_be_taken_again(play):
    steps = [{"allocate": "a"}, {"allocate": "b"}, {"release": "a"}, {"allocate": "b"}]
    summary = play(scenario(claims=[a_claim("a", 2), a_claim("b", 2)], steps=steps))
    assert [(name, device) for name, _, device in taken(summary)] == [
        ("default/a", "gpu-0"),
        ("default/a", "gpu-1"),
        ("default/b", "gpu-0"),
        ("default/b", "gpu-1"),
    ]
    assert (summary["allocated"], summary["failed"]) == (2, 1)


@pytest.mark.parametrize(
    "nodes", [("node-2", "node-10", "node-1"), ("c", "b", "a"), ("a", "b", "c")], ids=" ".join
)
def test_nodes_are_tried_in_the_order_of_the_file(play, nodes):
    summary = play(scenario(nodes, 1, claims=[a_claim(name) for name in "xyz"]))
    assert [node for _, node, _ in taken(summary)] == list(nodes)


def test_a_better_alternative_wins_over_an_earlier_node(play):
    content = scenario(("z", "a"), 1)
    content["resourceSlices"] = [
        *gpus.node_slices("z", 1, model="L4"),
        *gpus.node_slices("a", 1, model="H100"),
    ]
    summary = play({**content, "claims": [first_of("x", "H100", "L4"), first_of("y", "H100", "L4")]})
    assert [node for _, node, _ in taken(summary)] == ["a", "z"]


def test_what_claims_of_the_file_hold_already_is_not_given_out(play):
    holder = a_claim("holder")
    result = {"request": "r", "driver": gpus.DRIVER, "pool": "node-0", "device": "gpu-0"}
    holder["status"] = {"allocation": {"devices": {"results": [result]}}}
    summary = play(scenario(claims=[holder, a_claim("a")]))
    assert taken(summary) == [("default/a", "node-0", "gpu-1")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"steps": [{"take": "a"}]}', r"steps\[0\]: must be"),
        ('{"steps": [{"allocate": "a"}]}', "0 claims are named 'a'"),
    ],
    ids=["cut off", "a list", "unknown step", "unknown claim"],
)
def test_a_file_that_is_no_scenario_is_refused_with_the_reason(play, content, says):
    with pytest.raises(Malformed, match=says):
        play(content)
