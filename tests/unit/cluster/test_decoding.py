"""JSON of any depth is decoded as far as we go; the rest is marked."""

import json
from typing import Any

import pytest

from reconciler.cluster.decoding import DEEPEST, cut_event, cut_listing, decode, holds


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


def page(*items: bytes) -> bytes:
    return b'{"metadata": {"resourceVersion": "7"}, "items": [%b]}' % b", ".join(items)


def test_a_listing_is_cut_into_items_that_are_decoded_alone():
    items, version, token, mark = cut_listing(page(b'{"a": [1]}', b"{}"))
    assert (items, version, token, mark) == ([b'{"a": [1]}', b"{}"], "7", "", None)


def test_an_item_that_nests_too_deeply_does_not_take_the_others_with_it():
    listing = cut_listing(page(b'{"a": %b}' % nested(9000), b'{"a": 1}'))
    assert listing.mark is not None
    first, second = (decode(item)[0] for item in listing.items)
    assert holds(first, listing.mark)
    assert second == {"a": 1}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"metadata": 3}', b'{"metadata": {}, "items": 3}', nested(9000)]
)
def test_what_is_no_listing_is_an_error(text):
    with pytest.raises(ValueError, match="no listing"):
        cut_listing(text)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"type": "ADDED"}', b'{"type": 3, "object": {}}', nested(9000)]
)
def test_a_line_that_is_no_plain_event_is_left_to_be_decoded(line):
    assert cut_event(line) is None
