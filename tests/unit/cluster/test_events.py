"""Streams are cut into lines, pages and events into objects, and lines of a watch become changes."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import DEEPEST, decode
from reconciler.cluster.events import Cursor, IsKnown, complete_lines, cut_event, cut_listing, listed
from reconciler.errors import Relist, Retry
from tests.tools.cluster_objects import CLAIMS, NODES, error_event, event, node

TEXT = '{"name":"gerät"}\n\n{"b":2}\r\n{"cut'.encode()


async def chunked(text: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 12, 100])
async def test_chunks_do_not_show(size):
    lines = [line.strip() async for line in complete_lines(chunked(TEXT, size), limit=100)]
    assert lines == ['{"name":"gerät"}'.encode(), b'{"b":2}']


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_line_beyond_the_limit_is_not_collected(size, end):
    """A server gone mad must not fill our memory."""
    with pytest.raises(Retry, match=r"at most 99|more than 99"):
        [line async for line in complete_lines(chunked(b"x" * 100 + end, size), limit=99)]


def nested(depth: int, inside: str = "") -> bytes:
    return ("[" * depth + inside + "]" * depth).encode()


def page(*items: bytes) -> bytes:
    return b'{"metadata": {"resourceVersion": "7"}, "items": [%b]}' % b", ".join(items)


def test_a_listing_is_cut_into_items_that_are_decoded_alone():
    items, version, token = cut_listing(page(b'{"a": [1]}', b"{}"))
    assert (items, version, token) == ([b'{"a": [1]}', b"{}"], "7", "")


def test_an_item_that_nests_too_deeply_does_not_take_the_others_with_it():
    first, second = cut_listing(page(b'{"a": %b}' % nested(9000), b'{"a": 1}')).items
    found = decode("Pod", "v1", first)
    assert isinstance(found, Refused)
    assert str(DEEPEST) in found.reason
    assert second == b'{"a": 1}'


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"metadata": 3}', b'{"metadata": {}, "items": 3}', nested(9000)]
)
def test_what_is_no_listing_is_an_error(text):
    with pytest.raises(ValueError, match="no listing"):
        cut_listing(text)


@pytest.mark.parametrize(
    "line", [b"", b"[]", b'{"type": "ADDED"}', b'{"type": 3, "object": {}}', nested(9000)]
)
def test_a_line_that_is_no_event_is_an_error(line):
    with pytest.raises(ValueError, match="no event"):
        cut_event(line)


def test_an_event_whose_object_nests_too_deeply_is_cut():
    kind, text = cut_event(b'{"type": "ADDED", "object": {"a": %b}}' % nested(9000))
    assert kind == "ADDED"
    assert isinstance(decode("Pod", "v1", text), Refused)


def make_cursor(version: str = "10") -> Cursor:
    return Cursor(NODES, version)


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("what", ["ADDED", "MODIFIED"])
def test_an_object_moves_the_cursor_and_is_told(what):
    cursor = make_cursor()
    change = cursor.feed(line(event(what, node("a", "11"))))
    assert isinstance(change, Changed)
    assert (change.kind, change.object.key, cursor.version) == ("Node", ObjectKey("", "a"), "11")


def test_a_deletion_needs_no_more_than_a_name():
    """Whatever else is wrong with the object: it is gone."""
    cursor = make_cursor()
    found = cursor.feed(line(event("DELETED", node("a", "11", labels=3))))
    assert found == Removed("Node", ObjectKey("", "a"))
    assert cursor.version == "11"


def test_an_event_of_a_type_to_come_only_moves_the_cursor():
    cursor = make_cursor()
    assert cursor.feed(line(event("MIRRORED", node("a", "11")))) is None
    assert cursor.version == "11"


ODD = [
    pytest.param(error_event(410, "too old"), Relist, id="ERROR 410"),
    pytest.param(error_event(500, "etcd"), Retry, id="ERROR 500"),
    pytest.param({"type": "ERROR", "object": {}}, Retry, id="ERROR without a status"),
    pytest.param(event("MODIFIED", node("a", "9")), Relist, id="an earlier version"),
    pytest.param({"type": "ADDED"}, Retry, id="no object"),
    pytest.param(["ADDED"], Retry, id="no event"),
    pytest.param("ADDED", Retry, id="a text"),
]


@pytest.mark.parametrize(("value", "error"), ODD)
def test_what_is_no_change_leaves_the_cursor_where_it_is(value, error):
    cursor = make_cursor()
    with pytest.raises(error):
        cursor.feed(line(value))
    assert cursor.version == "10"


@pytest.mark.parametrize("version", ["", None])
def test_an_object_without_a_version_does_not_lose_the_place(version):
    cursor = make_cursor()
    cursor.feed(line(event("ADDED", {"metadata": {"name": "a", "resourceVersion": version}})))
    assert cursor.version == "10"


@pytest.mark.parametrize("text", [b"3", b'{"a": "\xff"}'], ids=["a number", "no UTF-8"])
def test_an_item_that_is_no_object_ends_the_listing(text):
    with pytest.raises(Retry, match="listing of nodes: an item is"):
        listed(text, NODES)


@pytest.mark.parametrize("metadata", [None, 3, {}, {"name": 7}], ids=str)
def test_an_object_without_a_name_is_refused(metadata):
    change = make_cursor().feed(line(event("ADDED", {"metadata": metadata})))
    assert isinstance(change, Refused)
    assert change.reason


def claim_line(version: str, *, uid: str = "u", kind: str = "MODIFIED") -> bytes:
    metadata = {"name": "c", "namespace": "n", "uid": uid, "resourceVersion": version}
    claim = {"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1", "metadata": metadata, "spec": {}}
    return json.dumps({"type": kind, "object": claim}).encode()


def knowing(uid: str, known: int) -> IsKnown:
    """What our writes tell, where the store has a claim in some version."""
    return lambda key, its, version: (key, its) == (ObjectKey("n", "c"), uid) and int(version) <= known


def test_a_version_that_is_known_is_passed_over_and_moves_the_cursor():
    cursor = Cursor(CLAIMS, "3", knowing("u", 5))
    assert cursor.feed(claim_line("5")) is None
    assert cursor.version == "5"


def test_another_claim_of_that_name_is_told():
    assert isinstance(Cursor(CLAIMS, "3", knowing("u", 5)).feed(claim_line("5", uid="v")), Changed)


def test_that_a_claim_is_gone_is_told():
    assert isinstance(Cursor(CLAIMS, "3", knowing("u", 5)).feed(claim_line("5", kind="DELETED")), Removed)


def test_a_version_before_the_cursor_is_of_another_history():
    with pytest.raises(Relist):
        Cursor(CLAIMS, "7", knowing("u", 5)).feed(claim_line("5"))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"type": "MODIFIED"}'])
def test_what_is_no_object_is_not_passed_over(text):
    with pytest.raises(Retry):
        Cursor(CLAIMS, "7", lambda *_: True).feed(text)


async def test_a_line_of_exactly_the_limit_passes():
    assert [line async for line in complete_lines(chunked(b"x" * 99 + b"\n", 10), limit=99)] == [b"x" * 99]
