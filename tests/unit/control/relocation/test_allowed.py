"""Which pods somebody has opted in."""

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.versions.reading import read
from reconciler.control.relocation.moves import MOVABLE, Allowed
from tests.tools.small_fleet import pod


def labelled(movable: str | None, priority: int | None = None) -> Pod:
    raw = pod("p") if priority is None else pod("p", priority=priority)
    raw["metadata"]["labels"] = {} if movable is None else {MOVABLE: movable}
    found = read(raw)
    assert isinstance(found, Pod)
    return found


@pytest.mark.parametrize(
    ("movable", "namespaces", "permitted"),
    [
        (None, (), False),
        ("true", (), True),
        ("yes", (), False),
        (None, ("default",), True),
        (None, ("other",), False),
        ("true", ("other",), True),
        ("false", ("default",), False),
    ],
)
def test_pods_are_opted_in(movable: str | None, namespaces: tuple[str, ...], permitted: bool):
    """By their label, or by their namespace unless the label says otherwise."""
    assert Allowed(frozenset(namespaces), 0).permits(labelled(movable)) is permitted


@pytest.mark.parametrize(("priority", "permitted"), [(None, True), (5, True), (6, False)])
def test_pods_of_a_higher_priority_are_not(priority: int | None, permitted: bool):
    assert Allowed(frozenset(), 5).permits(labelled("true", priority)) is permitted
