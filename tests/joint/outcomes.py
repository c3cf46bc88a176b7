"""Decisions on a claim with a joint allocation, and the devices that it got."""

from typing import Any

from reconciler.joint import decide
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.plan import Granted, Unsatisfied
from tests.builders import Object, snapshot, typed


def answer(world: list[Object], claim: Object, **options: Any) -> Granted | Unsatisfied:
    asked = typed(claim)
    assert isinstance(asked, ResourceClaim)
    return decide([asked], snapshot(*world), **options)


def given_by(outcome: Granted | Unsatisfied) -> dict[str, list[str]]:
    assert isinstance(outcome, Granted), outcome
    found: dict[str, list[str]] = {}
    for result in outcome.plans[0].allocation.devices.results:
        found.setdefault(result.request, []).append(result.device)
    return found
