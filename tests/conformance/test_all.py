"""The suites over the data, random cases over a quarter, and the runner over a few cases of our own.

`python -m tests.conformance all` plays all of it.
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.documents import SHARED, documents
from tests.conformance.suites import SUITES, outcomes
from tests.tools.builders import claim, device_class, devices, hold, node, request, resource_slice
from tests.tools.checkout import needs
from tests.tools.koordinator_recorded import SKIPPED as SKIPPED_OF_KOORDINATOR
from tests.tools.transcript_replay import ORDER

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no conformance data at {SHARED}")

SKIPPED = {"koordinator": SKIPPED_OF_KOORDINATOR}
EVERY = {"dra": 4, "podfit": 4}
"""Of the random cases of these suites, which stand many in a file, one in so many is played"""
RANDOM_SELECTORS = SHARED.parent / "next" / "cel-random.json.gz"
EVERY_SELECTOR = 40
CASES = {"dra": 219 + 279, "cel": 133 + 66, "apiserver": 95, "koordinator": 231, "podfit": 450}
"""How many are played"""


@needs_data
@pytest.mark.parametrize("suite", SUITES)
def test_every_recorded_answer_is_ours(suite: str):
    step = EVERY.get(suite, 1)
    cases = [document for document in documents(SHARED) if SUITES[suite].recognises(document.data)]
    played = [case for at, case in enumerate(cases) if case.number is None or at % step == 0]
    found = list(outcomes(suite, played))
    assert [outcome for outcome in found if outcome.mismatch] == []
    skipped = [outcome for outcome in found if outcome.skipped]
    assert skipped == SKIPPED.get(suite, [])
    assert len(found) == CASES[suite]


@needs(RANDOM_SELECTORS)
def test_random_selectors_answer_as_kubernetes_evaluator_did():
    (document,) = documents(RANDOM_SELECTORS)
    sample = document.data["cases"][::EVERY_SELECTOR]
    found = list(outcomes("cel", [replace(document, data={**document.data, "cases": sample})]))
    assert [outcome for outcome in found if outcome.mismatch] == []
    assert len(found) == len(sample) > 100


@needs_data
def test_every_recording_of_the_api_server_is_played():
    assert {path.stem for path in (SHARED / "apiserver").glob("*.json")} == set(ORDER)


def case(name: str, **fields: Any) -> dict[str, Any]:
    """One device, on two nodes, of which the first reaches it."""
    wants = claim("c", request("r", device_class="any"))
    allocation = {
        "devices": {"results": [hold("A")]},
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
            ]
        },
    }
    return {
        "name": name,
        "a key that nobody knows": 1,
        "features": [],
        "nodes": [node("n"), node("m")],
        "claims": [wants],
        "deviceClasses": [device_class("any")],
        "resourceSlices": [resource_slice("s", devices("A"), nodeName="n")],
        "expect": [{"allocations": [allocation]}, {"allocations": None}],
        **fields,
    }


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    """Exit code and what was printed."""
    code = main([str(argument) for argument in arguments])
    return code, capsys.readouterr().out.splitlines()


def test_cases_come_one_a_file_in_lists_and_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "one.json").write_text(json.dumps(case("one")))
    (tmp_path / "list.json").write_text(json.dumps([case("two"), case("three")]))
    below = tmp_path / "below"
    below.mkdir()
    (below / "lines.jsonl").write_text(json.dumps(case("four")) + "\n\n")
    (below / "lines.jsonl.gz").write_bytes(gzip.compress(json.dumps(case("five")).encode()))
    (below / "README.md").write_text("no case")
    assert run(capsys, "dra", tmp_path) == (0, ["5 passed, 0 failed, 0 skipped"])
    assert run(capsys, "all", tmp_path / "one.json", below) == (0, ["3 passed, 0 failed, 0 skipped"])


def test_one_node_has_one_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "case.json"
    single = {key: value for key, value in case("c").items() if key != "nodes"}
    file.write_text(json.dumps({**single, "node": node("m"), "expect": {"allocations": None}}))
    assert run(capsys, "dra", file) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_a_mismatch_shows_both_answers_and_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "case.json"
    file.write_text(json.dumps([case("wrong", expect=[{"errorClass": "CELRuntime"}] * 2), case("right")]))
    code, lines = run(capsys, "dra", file)
    assert code == 1
    assert lines[0] == "failed wrong"
    assert lines[1] == '  expected ["CELRuntime", "CELRuntime"]'
    assert lines[2].startswith('  got      [[{"results": [{"request": "r", "driver": "d", "pool": "p"')
    assert lines[3:] == ["1 passed, 1 failed, 0 skipped"]


def test_what_others_hold_is_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "case.json"
    taken = {"driver": "d", "pool": "p", "device": "A"}
    share = {**taken, "shareID": "s"}
    consumed = {**taken, "consumed": {"mem": "1Gi"}}
    nothing = [{"allocations": None}] * 2
    file.write_text(
        json.dumps(
            [
                case("dedicated", allocatedDevices=[taken], expect=nothing),
                case("shared", allocatedSharedDevices=[share], consumedCapacity=[consumed], expect=nothing),
                case("consumed", consumedCapacity=[consumed], expect=nothing),
            ]
        )
    )
    assert run(capsys, "dra", file) == (0, ["3 passed, 0 failed, 0 skipped"])


def test_a_case_that_cannot_be_read_is_a_mismatch(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "case.json"
    file.write_text(json.dumps([case("broken", deviceClasses=[{}]), case("whole")]))
    code, lines = run(capsys, "dra", file)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")


@pytest.mark.parametrize("arguments", [["dra", "absent"], ["cel", "case.json"], ["nothing"]])
def test_what_cannot_be_run_is_a_usage_error(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("case.json").write_text(json.dumps(case("c")))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
