"""Pages and events are cut into objects, however deeply these nest."""

import pytest

from reconciler.api.objects.changes import Refused
from reconciler.api.versions.reading import DEEPEST, decode
from reconciler.cluster.decoding import cut_event, cut_listing


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
