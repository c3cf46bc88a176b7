"""A scenario is played as its file says: objects, nodes in order, steps."""

import json
import sys
from pathlib import Path

import pytest

from perf.catalogue import WORKLOADS
from perf.deciding import Decider, Wrong, audit, read_claim
from perf.fleets import gpus, mig
from perf.fleets.objects import claim, exactly
from perf.oracle import Unanswered, ask
from perf.replay import replay
from perf.workload import OracleTask
from reconciler.errors import Malformed
from tests.tools import builders


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
    alternatives = {
        model.lower(): builders.wants(
            device_class=gpus.CLASS,
            selectors=builders.selectors(f"device.attributes['{gpus.DRIVER}'].model == '{model}'"),
        )
        for model in models
    }
    return claim(name, [builders.first_of("r", **alternatives)])


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
    found = [f"{name} {device}" for name, _, device in taken(summary)]
    assert found == ["default/a gpu-0", "default/a gpu-1", "default/b gpu-0", "default/b gpu-1"]
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


# -- Another allocator is asked the same problem, and only an answer to it is taken.


ASKED = {name: workload for name, workload in WORKLOADS.items() if workload.oracle is not None}
ANSWER = """
import json, sys
s = json.load(sys.stdin)
assert s["mode"] == "bench" and s["nodes"] and s["resourceSlices"] and s["deviceClasses"]
picks = [[f"d/p/{n}"] for n in range(len(s["claims"]))]
print(json.dumps({"name": s["name"], "perClaimMicros": [200 for _ in picks], "picks": picks}))
"""


def a_program(folder: Path, code: str) -> Path:
    path = folder / "oracle"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return path


def task_of(name: str) -> OracleTask:
    task = ASKED[name].oracle
    assert task is not None
    return task


@pytest.mark.parametrize("name", ASKED)
def test_its_figures_have_the_names_of_ours(name: str, tmp_path: Path):
    size = {**ASKED[name].tiny, "claims": max(ASKED[name].tiny["claims"], 2)}
    if name == "mig-fill":
        size["claims"] = 200
    found = ask(a_program(tmp_path, ANSWER), name, task_of(name), size)
    ours = {figure.name for figure in ASKED[name].run(size, lambda *_: None).figures}
    assert found
    assert {figure.name for figure in found} <= ours


def test_rates_are_those_of_the_times_that_it_told(tmp_path: Path):
    found = {one.name: one.value for one in ask(
        a_program(tmp_path, ANSWER), "w", task_of("whole-gpu"), {"nodes": 2, "claims": 5}
    )}  # fmt: skip
    assert found["claims/s"] == pytest.approx(5000)
    assert found["claim worst"] == pytest.approx(200)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.exit(3)", "exit status 3"),
        ("print('what?')", "Expecting value"),
        ("print('{}')", "5 claims were asked"),
        ('print(\'{"perClaimMicros": [1], "picks": [[]]}\')', "5 claims were asked"),
        ('print(\'{"perClaimMicros": [1,1,1,1,1], "picks": [["a"],["a"],[],[],null]}\')', "twice"),
        ('print(\'{"perClaimMicros": [1,1,1,1,1], "picks": [["error no"],[],[],[],[]]}\')', "error no"),
    ],
)
def test_what_is_no_answer_is_told_with_the_program_and_the_workload(code: str, why: str, tmp_path: Path):
    with pytest.raises(Unanswered, match=f"oracle: w: .*{why}"):
        ask(a_program(tmp_path, code), "w", task_of("whole-gpu"), {"nodes": 2, "claims": 5})


def test_objects_carry_the_defaults_that_a_server_would_have_set():
    for workload in ASKED.values():
        assert workload.oracle is not None
        _, claims = workload.oracle.problem(workload.tiny)
        for asked in json.loads(json.dumps(claims)):
            for request in asked["spec"]["devices"]["requests"]:
                assert {"allocationMode", "count"} <= request["exactly"].keys()


def test_a_device_that_is_given_out_twice_fails_the_run():
    decider = Decider.over(gpus.fleet(2))
    granted = decider.grant(read_claim(claim("a", [exactly("r", gpus.CLASS)])))
    audit(decider.store, [granted])
    with pytest.raises(Wrong, match="given out twice"):
        audit(decider.store, [granted, granted])


def test_counters_that_are_overdrawn_fail_the_run():
    """Two pictures that know nothing of each other grant the whole GPU and a part of it."""
    granted = [
        Decider.over(mig.fleet(2)).grant(read_claim(claim("a", [mig.partition("r", profile)])))
        for profile in ("7g.40gb", "1g.5gb")
    ]
    with pytest.raises(Wrong, match="overdraws counter"):
        audit(Decider.over(mig.fleet(2)).store, granted)


def test_an_answer_that_must_not_be_fails_the_run():
    decider = Decider.over(gpus.fleet(2))
    with pytest.raises(Wrong, match="must not fit"):
        decider.refuse(read_claim(claim("a", [exactly("r", gpus.CLASS)])))
    with pytest.raises(Wrong, match="must fit"):
        decider.grant(read_claim(claim("b", [exactly("r", gpus.CLASS, count=9)])))
