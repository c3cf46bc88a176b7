"""Shapes that a server would take, drop the field in question, and then mean something else."""

from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.errors import Malformed
from reconciler.legacy.shapes import Raw, mapping, mappings


def refuse_slips(raw: Raw, subject: str) -> None:
    """Raise Malformed for a field that is one level too high or too deep. Takes objects as v1 spells them."""
    spec = mapping(raw.get("spec"))
    match raw["kind"]:
        case "Pod":
            for number, entry in enumerate(mappings(spec.get("resourceClaims"))):
                if "source" in entry:
                    where = f"spec.resourceClaims[{number}].source"
                    raise Malformed(
                        subject, where, "was dropped in 1.31; move what is below it up to the entry"
                    )
        case "ResourceClaim":
            if "spec" in spec:
                raise Malformed(subject, "spec.spec", "is for a ResourceClaimTemplate; move it up in a claim")
            _refuse_bare_expressions(_selectors(spec, "spec"), subject)
        case "ResourceClaimTemplate":
            _refuse_bare_expressions(_selectors(mapping(spec.get("spec")), "spec.spec"), subject)
        case "DeviceClass":
            _refuse_bare_expressions([("spec.selectors", spec.get("selectors"))], subject)


def _selectors(spec: Raw, path: str) -> Iterator[tuple[str, Any]]:
    """Every list of selectors of a claim, with the way to it."""
    for number, request in enumerate(mappings(mapping(spec.get("devices")).get("requests"))):
        way = f"{path}.devices.requests[{number}]"
        yield f"{way}.exactly.selectors", mapping(request.get("exactly")).get("selectors")
        for at, alternative in enumerate(mappings(request.get("firstAvailable"))):
            yield f"{way}.firstAvailable[{at}].selectors", alternative.get("selectors")


def _refuse_bare_expressions(found: Iterable[tuple[str, Any]], subject: str) -> None:
    for path, selectors in found:
        for number, selector in enumerate(mappings(selectors)):
            if "expression" in selector:
                raise Malformed(
                    subject, f"{path}[{number}].expression", "belongs under `cel`; indent it further"
                )
