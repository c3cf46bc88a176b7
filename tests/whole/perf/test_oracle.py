"""Another allocator is asked the same problem, and only an answer to it is taken."""

import json
import sys
from pathlib import Path

import pytest

from perf.catalogue import WORKLOADS
from perf.deciding import Decider, Wrong, audit, read_claim
from perf.fleets import gpus, mig
from perf.fleets.objects import claim, exactly
from perf.oracle import Unanswered, ask
from perf.workload import OracleTask

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
