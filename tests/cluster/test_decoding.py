"""JSON of any depth is decoded as far as we go; the rest is marked."""

import json
from typing import Any

import pytest

from reconciler.cluster.decoding import DEEPEST, decode, holds


def nested(depth: int, inside: str = "") -> bytes:
    return ("[" * depth + inside + "]" * depth).encode()


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth, value = depth + 1, value[0] if value else None
    return depth


def test_the_deepest_level_is_still_decoded():
    value, mark = decode(nested(DEEPEST, "1"))
    assert mark is None
    assert depth_of(value) == DEEPEST


def test_one_level_more_is_replaced_by_the_mark():
    value, mark = decode(nested(DEEPEST + 1, "1"))
    assert depth_of(value) == DEEPEST
    assert mark is not None
    assert holds(value, mark)


def test_what_stands_beside_the_depth_is_kept():
    text = b'{"a": 1, "deep": %b, "deeper": {"x": %b}, "z": "]}[{\\""}' % (nested(5000), nested(9000, '"]"'))
    value, mark = decode(text)
    assert mark is not None
    assert (value["a"], value["z"]) == (1, ']}[{"')
    assert [holds(value[key], mark) for key in ("a", "deep", "deeper", "z")] == [False, True, True, False]


def test_the_mark_is_a_text_that_does_not_occur():
    value, mark = decode(b'{"said": "nested too deeply", "deep": %b}' % nested(300))
    assert mark == "nested too deeply."
    assert not holds(value["said"], mark)


@pytest.mark.parametrize("text", [b"", b"{", b"<html>", b'{"a":}', nested(300)[:-1], b'"' * 10_001, b"\xff"])
def test_what_is_not_json_is_an_error(text):
    with pytest.raises(ValueError, match="column"):
        decode(text)


def test_large_integers_stay_exact():
    value, _ = decode(json.dumps({"n": 2**200}).encode())
    assert value["n"] == 2**200
