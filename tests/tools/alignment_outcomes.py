"""Decisions on a claim with a joint allocation, and the devices that it got."""

from typing import Any

from reconciler.allocation.alignment.deciding import decide
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from tests.tools.builders import Object, snapshot, typed


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
