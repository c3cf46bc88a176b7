"""News of our own writes is passed over, and nothing else is."""

import json

import pytest

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.cluster.cursor import Cursor
from reconciler.cluster.echoes import Echoes, version_of
from reconciler.cluster.kinds import Resource
from reconciler.errors import Relist

CLAIMS = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)


def line(version: str, *, uid: str = "u", kind: str = "MODIFIED") -> bytes:
    claim = {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "c", "namespace": "n", "uid": uid, "resourceVersion": version},
        "spec": {},
    }
    return json.dumps({"type": kind, "object": claim}).encode()


def knowing(uid: str, known: int) -> Echoes:
    """What our writes tell, where the picture has a claim in some version."""
    return Echoes(
        holds=lambda key, its, version: (key, its) == (ObjectKey("n", "c"), uid) and int(version) <= known,
        add=lambda _: None,
    )


def test_a_version_that_is_passed_over_is_told():
    told: list[str] = []
    echoes = Echoes(holds=lambda *_: True, add=lambda _: None, shown=told.append)
    assert Cursor(CLAIMS, read, "3", echoes).feed(line("5")) is None
    assert told == ["5"]


def test_a_version_that_is_known_is_passed_over_and_moves_the_cursor():
    cursor = Cursor(CLAIMS, read, "3", knowing("u", 5))
    assert cursor.feed(line("5")) is None
    assert cursor.version == "5"


def test_a_newer_version_is_told():
    found = Cursor(CLAIMS, read, "3", knowing("u", 5)).feed(line("6"))
    assert isinstance(found, Changed)
    assert found.object.metadata.resource_version == "6"


def test_another_claim_of_that_name_is_told():
    assert isinstance(Cursor(CLAIMS, read, "3", knowing("u", 5)).feed(line("5", uid="v")), Changed)


def test_that_a_claim_is_gone_is_told():
    assert isinstance(Cursor(CLAIMS, read, "3", knowing("u", 5)).feed(line("5", kind="DELETED")), Removed)


def test_a_version_before_the_cursor_is_of_another_history():
    with pytest.raises(Relist):
        Cursor(CLAIMS, read, "7", knowing("u", 5)).feed(line("5"))


def test_the_first_half_of_a_write_is_passed_over_while_the_second_is_under_way():
    echoes = knowing("u", 5)
    echoes.begun("u", "8")
    assert echoes.version(line("8")) == "8"
    assert echoes.version(line("7")) == ""
    echoes.over("u")
    assert echoes.version(line("8")) == ""


def test_the_first_half_of_a_write_is_told_where_the_picture_lost_the_claim():
    echoes = Echoes(holds=lambda *_: False, add=lambda _: None)
    echoes.begun("u", "8")
    assert echoes.version(line("8")) == ""


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"type": "MODIFIED", "object": {}}', b'{"metadata": {"name": 1}}']
)
def test_what_is_no_object_tells_no_version(text):
    assert knowing("u", 5).version(text) == ""
    with pytest.raises(ValueError, match=r"."):
        version_of(text)


def test_an_answer_tells_its_version():
    assert version_of(b'{"metadata": {"name": "c", "resourceVersion": "4"}, "spec": {}}') == "4"
