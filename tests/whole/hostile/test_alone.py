"""A hostile object costs itself at most: it is refused or fenced in, and others are answered as without it.

Here without a server: from the bytes that one would send to the decision.
"""

import json
import re
import sys
import tracemalloc
from importlib import import_module
from itertools import chain
from typing import Any

import pytest

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra import selector_masks
from reconciler.allocation.dra.refusal_counts import LONGEST_MESSAGE
from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import LONGEST_OBJECT, read
from reconciler.cel.errors import DECISION_COST_LIMIT, STATED_COST_LIMIT
from reconciler.cluster.events import Cursor, cut_listing, listed
from reconciler.cluster.kinds import Resource
from reconciler.errors import Retry
from reconciler.state.store import Store
from reconciler.state.trial import store_of
from tests.tools.checkout import DOCS
from tests.tools.hostile_objects import CLAIMS, SLICES, Object, hostile_slice
from tests.tools.small_fleet import claim, device_class, devices, node

RESOURCES = {
    "ResourceSlice": Resource("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False),
    "ResourceClaim": Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True),
}
GOOD = (node("m"), node("n"), device_class(), devices("n", "d0", "d1"), devices("m", "other", driver="x.io"))
ASKS = (claim("one"), claim("two", 2), claim("three", 3), claim("none", device_class="missing"))
LARGE = [name for name in SLICES if ("thousand" in name or "megabyte" in name) and "slow" not in name]
MUCH = 64 * 2**20
"""Bytes that reading and deciding about any of the objects may take. They have 2 MB at most."""
SLOW = "slow selectors in great numbers"
NO_TEXT = {"half characters"}
"""No server sends these, as strings of the API are UTF-8: what does is asked again"""


class Sign(str):
    """A part of JSON that is written as it is."""


def spelled(obj: Object) -> bytes:
    """JSON however deep and wide. Python's own encoder recurses, and how deep it may differs by version."""
    digits, text = sys.get_int_max_str_digits(), list[str]()
    rest: list[Any] = [{**obj, "metadata": {**obj["metadata"], "resourceVersion": "7"}}]
    sys.set_int_max_str_digits(0)
    try:
        while rest:
            match rest.pop():
                case dict() as fields:
                    entries = [
                        (Sign(","), Sign(json.dumps(key) + ":"), value) for key, value in fields.items()
                    ]
                    rest += [Sign("}"), *reversed([*chain(*entries)][1:]), Sign("{")]
                case list() as values:
                    members = [(Sign(","), value) for value in values]
                    rest += [Sign("]"), *reversed([*chain(*members)][1:]), Sign("[")]
                case Sign() as sign:
                    text.append(sign)
                case value:
                    text.append(json.dumps(value))
    finally:
        sys.set_int_max_str_digits(digits)
    return "".join(text).encode()


def taken_in(text: bytes, kind: str, *, watched: bool) -> Changed | Refused:
    """What a listing, or an event, with the object alone tells."""
    resource = RESOURCES[kind]
    if watched:
        line = b'{"type":"ADDED","object":' + text + b"}"
        change = Cursor(resource, "1").feed(line)
        assert not isinstance(change, Removed)
        assert change is not None
        return change
    page = cut_listing(b'{"metadata":{"resourceVersion":"7"},"items":[' + text + b"]}")
    found = listed(page.items[0], resource)
    return found if isinstance(found, Refused) else Changed(kind, found)


def store_with(*changes: Any) -> Store:
    store = store_of(map(read, GOOD), Semantics())
    store.snapshot()
    for change in changes:
        store.apply(change)
    return store


def answer(store: Store, thing: ApiObject) -> Granted | Unsatisfied:
    assert isinstance(thing, ResourceClaim)
    return decide([thing], store.snapshot(), steps=1000)


def answers(store: Store) -> list[Any]:
    """Who gets which devices, or the reason; each asked alone."""
    found = (answer(store, read(ask)) for ask in ASKS)
    return [
        [str(result.id) for plan in one.plans for result in plan.allocation.devices.results]
        if isinstance(one, Granted)
        else one.reason
        for one in found
    ]


EXPECTED = answers(store_with())


def test_what_is_expected_is_not_trivial():
    assert EXPECTED[0] == ["gpu.example.com/n/d0"]
    assert "ClassNotFound" in EXPECTED


@pytest.mark.parametrize("name", [name for name in SLICES if name not in NO_TEXT])
def test_a_slice_of_another_pool_changes_no_answer(name: str):
    """A device that no selector can be run on refuses its own node, and says so (CEL-6).

    Large ones take a bounded multiple of their size.
    """
    text, store = spelled(SLICES[name]), store_with()
    if name in LARGE:
        tracemalloc.start()
    try:
        change = taken_in(text, "ResourceSlice", watched=name in LARGE or len(name) % 2 == 0)
        store.apply(change)
        store.snapshot()
        assert not tracemalloc.is_tracing() or tracemalloc.get_traced_memory()[1] < MUCH
    finally:
        tracemalloc.stop()
    if isinstance(change, Refused):
        assert change.key.name == "evil"
        assert 0 < len(change.reason) < 500
    for found, expected in zip(answers(store), EXPECTED, strict=True):
        assert found in (expected, Reason.CEL_RUNTIME) if isinstance(expected, Reason) else found == expected
    store.apply(Removed("ResourceSlice", ObjectKey("", "evil")))
    assert answers(store) == EXPECTED


@pytest.mark.parametrize("name", [name for name in CLAIMS if name != SLOW])
def test_a_claim_is_refused_alone_or_decided_and_changes_no_answer(name: str):
    change = taken_in(spelled(CLAIMS[name]), "ResourceClaim", watched=len(name) % 2 == 0)
    store = store_with(change)
    if isinstance(change, Refused):
        assert change.key.name == "evil"
        assert 0 < len(change.reason) < 500
    else:
        found = answer(store, change.object)
        assert isinstance(found, Granted) or len(found.message) < 2 * LONGEST_MESSAGE
    assert answers(store) == EXPECTED


def test_selectors_beyond_the_budget_are_given_up_and_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selector_masks, "DECISION_COST_LIMIT", DECISION_COST_LIMIT // 32)
    store = store_with()
    found = answer(store, read(CLAIMS[SLOW]))
    assert isinstance(found, Unsatisfied)
    assert found.reason is Reason.GAVE_UP
    assert str(DECISION_COST_LIMIT) in found.message
    assert answers(store) == EXPECTED


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize("watched", [False, True], ids=["listed", "watched"])
def test_an_object_that_is_too_long_is_refused_alone(kind: str, watched: bool):
    obj = hostile_slice({"name": "d"}) if kind == "ResourceSlice" else claim("evil")
    obj = {**obj, "metadata": {**obj["metadata"], "annotations": {"x": "y" * LONGEST_OBJECT}}}
    change = taken_in(spelled(obj), kind, watched=watched)
    assert isinstance(change, Refused)
    assert str(LONGEST_OBJECT) in change.reason
    assert "evil" in change.reason


def test_half_a_character_is_no_answer_of_a_server():
    with pytest.raises((Retry, ValueError)):
        taken_in(spelled(SLICES["half characters"]), "ResourceSlice", watched=False)


def test_homoglyphs_are_other_devices():
    """Names are compared as they are: nothing is normalised, so nothing can be taken over."""
    change = taken_in(spelled(SLICES["homoglyphs of a good name"]), "ResourceSlice", watched=True)
    world = store_with(change).snapshot()
    names = {str(world.fleet.id_of(row)) for row in range(world.fleet.size)}
    assert len(names) == 6
    assert "gpu.example.com/n/d0" in names


def test_expressions_of_a_pool_have_a_budget_and_the_pool_says_so():
    change = taken_in(spelled(SLICES["a thousand slow expressions"]), "ResourceSlice", watched=True)
    world = store_with(change).snapshot()
    told = [
        str(problem) for pool in world.fleet.pools if pool.exclusion for problem in pool.exclusion.problems
    ]
    assert any(str(STATED_COST_LIMIT) in text for text in told)


# -- docs/limits.md says what the code says.


PAGE = (DOCS / "limits.md").read_text()
ROWS = re.findall(r"^- (.+): (\d+)[^(\n]* \(`([\w.]+)`\): .+$", PAGE, re.M)
"""What, the limit, and where it is defined"""


def test_every_row_is_read():
    rows = [line for line in PAGE.splitlines() if "(`reconciler." in line]
    assert len(ROWS) == len(rows) > 40


@pytest.mark.parametrize(("what", "limit", "where"), ROWS, ids=[where for _, _, where in ROWS])
def test_the_page_tells_the_limit_of_the_code(what: str, limit: str, where: str):
    module, _, name = where.rpartition(".")
    assert getattr(import_module(module), name) == int(limit), what
