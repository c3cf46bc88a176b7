"""Specs of pods that ask for extended resources, for properties."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/unknown", "cpu")
Json = dict[str, Any]


def _containers(prefix: str, refused: bool, **more: Any) -> st.SearchStrategy[list[Json]]:
    counts = st.integers(-2 if refused else 0, 4).map(str)
    amounts = st.dictionaries(st.sampled_from(RESOURCES), counts, max_size=3)
    uneven = {"requests": amounts} if refused else {}
    one = st.fixed_dictionaries({"image": st.just("i")}, optional={"limits": amounts, **uneven, **more})

    def finished(found: list[Json]) -> list[Json]:
        for number, made in enumerate(found):
            made["name"] = f"{prefix}{number}"
            limits, requests = made.pop("limits", None), made.pop("requests", {})
            if limits is not None or requests:  # as the API server completes it
                made["resources"] = {"limits": limits or {}, "requests": {**(limits or {}), **requests}}
        return found

    return st.lists(one, min_size=prefix == "m", max_size=3).map(finished)


def pod_specs(*, refused: bool = False, **optional: Any) -> st.SearchStrategy[Json]:
    """Specs with main and init containers, sidecars among these; `optional` are more fields.

    `refused`: also such that the API server refuses: negative, without a limit, or not equal to it.
    """

    def joined(mains: list[Json], inits: list[Json], more: Json) -> Json:
        return {**({"initContainers": inits} if inits else {}), "containers": mains, **more}

    gates, claims = [{"name": "example.com/other"}], [{"name": "old", "resourceClaimName": "x"}]
    present = {"schedulingGates": st.just(gates), "resourceClaims": st.just(claims)}
    more = st.fixed_dictionaries({}, optional={**present, **optional})
    inits = _containers("i", refused, restartPolicy=st.just("Always"))
    return st.builds(joined, _containers("m", refused), inits, more)


def without_refused(spec: Json) -> tuple[Json, list[tuple[str, str, Any, Any]]]:
    """A spec without the extended resources that the API server refuses, and these.

    Each as container, resource, limit and request: a limit is missing, negative or not equal to the request.
    """

    def is_refused(limit: str | None, request: str | None) -> bool:
        return limit != request or (limit is not None and int(limit) < 0)

    def found(container: Json) -> Iterator[tuple[str, str, Any, Any]]:
        amounts = container.get("resources") or {}
        limits, requests = amounts.get("limits") or {}, amounts.get("requests") or {}
        extended = [name for name in RESOURCES if "/" in name]
        for name in [name for name in extended if is_refused(limits.get(name), requests.get(name))]:
            yield container["name"], name, limits.pop(name, None), requests.pop(name, None)

    left = deepcopy(spec)
    return left, [
        one for part in (*left.get("initContainers", ()), *left["containers"]) for one in found(part)
    ]


def comparable(spec: Json) -> Any:
    """What rewriting changes, without the order of claims, and without maps that are empty or missing."""

    def parts(one: Json) -> Any:
        found = one.get("resources") or {}
        claims = sorted(claim["name"] for claim in found.get("claims", ()))
        return one["name"], found.get("limits") or {}, found.get("requests") or {}, claims

    return (
        [parts(one) for one in (*spec.get("initContainers", ()), *spec["containers"])],
        sorted(map(str, spec.get("resourceClaims", ()))),
        spec.get("schedulingGates"),
    )
