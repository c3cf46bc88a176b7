"""Shapes that a server would take, drop the field in question, and then mean something else."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.errors import Malformed

Raw = Mapping[str, Any]


def refuse_slips(raw: Raw, subject: str) -> None:
    """Raise Malformed for a field that is one level too high or too deep. Takes objects as v1 spells them."""
    spec = _map(raw.get("spec"))
    match raw["kind"]:
        case "Pod":
            for number, entry in enumerate(_maps(spec.get("resourceClaims"))):
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
            _refuse_bare_expressions(_selectors(_map(spec.get("spec")), "spec.spec"), subject)
        case "DeviceClass":
            _refuse_bare_expressions([("spec.selectors", spec.get("selectors"))], subject)


def _selectors(spec: Raw, path: str) -> Iterator[tuple[str, Any]]:
    """Every list of selectors of a claim, with the way to it."""
    for number, request in enumerate(_maps(_map(spec.get("devices")).get("requests"))):
        way = f"{path}.devices.requests[{number}]"
        yield f"{way}.exactly.selectors", _map(request.get("exactly")).get("selectors")
        for at, alternative in enumerate(_maps(request.get("firstAvailable"))):
            yield f"{way}.firstAvailable[{at}].selectors", alternative.get("selectors")


def _refuse_bare_expressions(found: Iterable[tuple[str, Any]], subject: str) -> None:
    for path, selectors in found:
        for number, selector in enumerate(_maps(selectors)):
            if "expression" in selector:
                raise Malformed(
                    subject, f"{path}[{number}].expression", "belongs under `cel`; indent it further"
                )


def _map(value: Any) -> Raw:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Raw]:
    return [_map(entry) for entry in value] if isinstance(value, list) else []
