"""Nominations as text: what is written is read again, and nothing from outside is believed blindly."""

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.errors import Malformed
from reconciler.state.nominations import (
    MAX_LENGTH,
    MAX_NOMINATIONS,
    HeldPlace,
    Nomination,
    Nominee,
    NomineeKind,
    as_json,
    read_record,
    text_of,
)

names = st.text(min_size=1, max_size=8)
places = st.builds(
    HeldPlace,
    names,
    st.lists(st.builds(DeviceID, names, names, names), max_size=3).map(tuple),
    st.dictionaries(names, st.integers(0, 2**62), max_size=2).map(lambda room: tuple(room.items())),
)
nominations = st.builds(
    Nomination,
    st.builds(Nominee, st.sampled_from(NomineeKind), st.builds(ObjectKey, names, names), names),
    st.lists(places, min_size=1, max_size=3).map(tuple),
    st.integers(-(2**31), 2**31 - 1),
    st.just(inf),
    names,
    names,
)


def nomination(name: str = "a", devices: int = 1) -> Nomination:
    place = HeldPlace("n", tuple(DeviceID("d", "p", str(at)) for at in range(devices)), (("cpu", 1000),))
    nominee = Nominee(NomineeKind.POD, ObjectKey("default", name))
    return Nomination(nominee, (place,), 5, inf, "2026-01-01T12:00:00Z", "u")


@given(st.lists(nominations, max_size=4))
def test_what_is_written_is_read_again(held: list[Nomination]):
    found = read_record(text_of(held), "here")
    assert found.nominations == tuple(held)
    assert found.refused == ()


def test_a_clock_of_the_process_is_not_written():
    assert text_of([replace(nomination(), until=3.0)]) == text_of([nomination()])


@pytest.mark.parametrize(
    "wrong",
    [
        7,
        None,
        {},
        {"nominee": ["node", "default", "a", ""]},
        {"nominee": ["pod", "default", "a"]},
        {"nominee": ["pod", "default", 1, ""]},
        {"places": [{"node": "n", "devices": [["d", "p"]], "room": {}}]},
        {"places": [{"node": "n", "devices": [["d", "p", ["x"]]], "room": {}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": 1.5}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": 2**70}}]},
        {"places": [{"node": "n", "devices": [], "room": {"cpu": -1}}]},
        {"places": 3},
        {"places": []},
        {"priority": "high"},
        {"deadline": None},
    ],
)
def test_a_nomination_that_cannot_be_read_is_refused_alone(wrong: Any):
    bad = {**as_json(nomination("b")), **wrong} if isinstance(wrong, dict) and wrong else wrong
    found = read_record(json.dumps([as_json(nomination()), bad]), "ConfigMap default/held")
    assert found.nominations == (nomination(),)
    (problem,) = found.refused
    assert "ConfigMap default/held" in str(problem)
    assert "[1]" in str(problem)


@pytest.mark.parametrize(
    "text", ["{", "{}", '"x"', "[" * 100_000, "[0]" + " " * MAX_LENGTH, f"[{'0,' * MAX_NOMINATIONS}0]"]
)
def test_what_is_no_record_is_refused(text: str):
    with pytest.raises(Malformed, match="here"):
        read_record(text, "here")


def test_a_record_that_would_be_too_long_keeps_the_oldest():
    held = [nomination(str(number), devices=2_000) for number in range(30)]
    text = text_of(held)
    assert len(text) <= MAX_LENGTH
    kept = read_record(text, "here").nominations
    assert 0 < len(kept) < 30
    assert kept == tuple(held[: len(kept)])
