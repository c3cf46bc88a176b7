"""The PodDisruptionBudgets as the watch shows them."""

from typing import Any

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import PodDisruptionBudget
from reconciler.api.versions.reading import read
from reconciler.control.relocation.evictor import KnownBudgets
from tests.tools.unit_pictures import key

KIND = "PodDisruptionBudget"


def budget(name: str, **status: Any) -> PodDisruptionBudget:
    metadata = {"name": name, "namespace": "default"}
    found = read({"apiVersion": "policy/v1", "kind": KIND, "metadata": metadata, "status": status})
    assert isinstance(found, PodDisruptionBudget)
    return found


def test_a_listing_replaces_all_and_events_change_one():
    known = KnownBudgets()
    assert not known.listed
    known.take(Replaced(KIND, (budget("a"), budget("b")), ()))
    assert known.listed
    known.take(Changed(KIND, budget("a", disruptionsAllowed=1)))
    known.take(Removed(KIND, key("b")))
    assert [(one.key, one.status.disruptions_allowed) for one in known.known] == [(key("a"), 1)]
    known.take(Replaced(KIND, (), ()))
    assert known.known == ()


def test_what_was_done_without_waits_for_the_list():
    known = KnownBudgets()
    known.go_without()
    assert known.listed
    known.go_with()
    assert not known.listed
    assert not known.unknown
    known.take(Replaced(KIND, (budget("a"),), ()))
    known.go_with()
    assert known.listed


def test_one_that_cannot_be_read_is_remembered_until_it_is_fixed():
    """Nobody knows which pods it covers."""
    known = KnownBudgets()
    known.take(Replaced(KIND, (), (Refused(KIND, key("a"), "broken"),)))
    assert known.unreadable == {key("a")}
    known.take(Refused(KIND, key("b"), "broken"))
    known.take(Changed(KIND, budget("a")))
    assert known.unreadable == {key("b")}
    known.take(Removed(KIND, key("b")))
    assert known.unreadable == set()
