"""The rules of the watch protocol, without a server."""

import json
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.cursor import Cursor, listed
from reconciler.errors import Relist, Retry
from tests.tools.cluster_objects import CLAIMS, NODES, bookmark, claim, error_event, event, node


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
    assert cursor.feed(line(event("DELETED", node("a", "11", labels=3)))) == Removed(
        "Node", ObjectKey("", "a")
    )
    assert cursor.version == "11"


def test_a_bookmark_only_moves_the_cursor():
    cursor = make_cursor()
    assert cursor.feed(line(bookmark("90"))) is None
    assert cursor.version == "90"


def test_an_event_of_a_type_to_come_only_moves_the_cursor():
    cursor = make_cursor()
    assert cursor.feed(line(event("MIRRORED", node("a", "11")))) is None
    assert cursor.version == "11"


def test_a_namespaced_object_is_known_by_both_names():
    change = Cursor(CLAIMS, "1").feed(line(event("DELETED", claim())))
    assert change == Removed("ResourceClaim", ObjectKey("default", "c"))


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
