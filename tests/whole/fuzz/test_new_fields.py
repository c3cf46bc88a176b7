"""Newer fields, broken in any way: no crash, no lost work, and a refusal names the object and the field.

`make soak` breaks each family of fields many times more.
"""

import pytest

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.versions.reading import read
from reconciler.state.trial import store_of
from tests.tools.mutations import FAMILIES, GOOD, RULES, outcome


@pytest.mark.parametrize("name", FAMILIES)
def test_unbroken_objects_get_devices(name: str):
    objects = [read(one) for one in FAMILIES[name].objects]
    wanted = [one for one in objects if isinstance(one, ResourceClaim)]
    snapshot = store_of([*map(read, GOOD), *objects], RULES).snapshot()
    assert isinstance(allocate(wanted, snapshot), Granted)


@pytest.mark.parametrize("name", FAMILIES)
def test_broken_objects_are_refused_alone(name: str):
    for seed in range(60):
        outcome(name, seed)
