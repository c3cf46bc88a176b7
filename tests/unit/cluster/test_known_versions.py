"""News of our own writes is passed over, and nothing else is."""

import json

import pytest

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.cursor import Cursor, IsKnown
from reconciler.cluster.kinds import Resource
from reconciler.errors import Relist, Retry

CLAIMS = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)


def line(version: str, *, uid: str = "u", kind: str = "MODIFIED") -> bytes:
    claim = {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "c", "namespace": "n", "uid": uid, "resourceVersion": version},
        "spec": {},
    }
    return json.dumps({"type": kind, "object": claim}).encode()


def knowing(uid: str, known: int) -> IsKnown:
    """What our writes tell, where the store has a claim in some version."""
    return lambda key, its, version: (key, its) == (ObjectKey("n", "c"), uid) and int(version) <= known


def test_a_version_that_is_known_is_passed_over_and_moves_the_cursor():
    cursor = Cursor(CLAIMS, "3", knowing("u", 5))
    assert cursor.feed(line("5")) is None
    assert cursor.version == "5"


def test_a_newer_version_is_told():
    found = Cursor(CLAIMS, "3", knowing("u", 5)).feed(line("6"))
    assert isinstance(found, Changed)
    assert found.object.metadata.resource_version == "6"


def test_another_claim_of_that_name_is_told():
    assert isinstance(Cursor(CLAIMS, "3", knowing("u", 5)).feed(line("5", uid="v")), Changed)


def test_that_a_claim_is_gone_is_told():
    assert isinstance(Cursor(CLAIMS, "3", knowing("u", 5)).feed(line("5", kind="DELETED")), Removed)


def test_a_version_before_the_cursor_is_of_another_history():
    with pytest.raises(Relist):
        Cursor(CLAIMS, "7", knowing("u", 5)).feed(line("5"))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"type": "MODIFIED"}'])
def test_what_is_no_object_is_not_passed_over(text):
    with pytest.raises(Retry):
        Cursor(CLAIMS, "7", lambda *_: True).feed(text)
