"""Specs of pods that ask for extended resources, for properties."""

from typing import Any

from hypothesis import strategies as st

RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/unknown", "cpu")
Json = dict[str, Any]


def _containers(prefix: str, **more: Any) -> st.SearchStrategy[list[Json]]:
    amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4).map(str), max_size=3)
    one = st.fixed_dictionaries({"image": st.just("i")}, optional={"limits": amounts, **more})

    def finished(found: list[Json]) -> list[Json]:
        for number, made in enumerate(found):
            made["name"] = f"{prefix}{number}"
            limits = made.pop("limits", None)
            if limits is not None:  # as the API server completes it
                made["resources"] = {"limits": limits, "requests": dict(limits)}
        return found

    return st.lists(one, min_size=prefix == "m", max_size=3).map(finished)


def pod_specs(**optional: Any) -> st.SearchStrategy[Json]:
    """Specs with main and init containers, sidecars among these; `optional` are more fields."""

    def joined(mains: list[Json], inits: list[Json], more: Json) -> Json:
        return {**({"initContainers": inits} if inits else {}), "containers": mains, **more}

    gates, claims = [{"name": "example.com/other"}], [{"name": "old", "resourceClaimName": "x"}]
    present = {"schedulingGates": st.just(gates), "resourceClaims": st.just(claims)}
    more = st.fixed_dictionaries({}, optional={**present, **optional})
    return st.builds(joined, _containers("m"), _containers("i", restartPolicy=st.just("Always")), more)


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
