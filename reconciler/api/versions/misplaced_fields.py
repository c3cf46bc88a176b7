"""Misplaced fields: a server would drop them and store an object with another meaning."""

from collections.abc import Iterable, Iterator
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping, mappings
from reconciler.errors import Malformed


def reject_misplaced_fields(raw: Raw, subject: str) -> None:
    """Raise Malformed for a field one level too high or too deep. Takes objects in the shape of v1."""
    spec = mapping(raw.get("spec"))
    match raw["kind"]:
        case "Pod":
            for number, entry in enumerate(mappings(spec.get("resourceClaims"))):
                if "source" in entry:
                    where = f"spec.resourceClaims[{number}].source"
                    raise Malformed(subject, where, "was removed in 1.31; move its fields up to the entry")
        case "ResourceClaim":
            if "spec" in spec:
                raise Malformed(
                    subject, "spec.spec", "belongs in a ResourceClaimTemplate; in a claim, move it up"
                )
            _refuse_bare_expressions(_selectors(spec, "spec"), subject)
        case "ResourceClaimTemplate":
            _refuse_bare_expressions(_selectors(mapping(spec.get("spec")), "spec.spec"), subject)
        case "DeviceClass":
            _refuse_bare_expressions([("spec.selectors", spec.get("selectors"))], subject)


def _selectors(spec: Raw, path: str) -> Iterator[tuple[str, Any]]:
    """Every list of selectors of a claim, with its path."""
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
