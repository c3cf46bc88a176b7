"""The policy that rewrites requests for extended resources does what `dra-reconciler migrate` does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import mapping
from reconciler.api.migrate.pods import rewrite
from tests.tools.admission_policies import Policy, Review
from tests.tools.deployed_rights import documents

(DOCUMENT,) = (
    one for one in documents("admission")
    if one["metadata"]["name"] == "dra-reconciler-rewrite-resources" and "variables" in one["spec"]
)  # fmt: skip
POLICY = Policy(DOCUMENT)
LABELLED = {"dra-reconciler.io/rewrite-resources": "true"}
RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/unknown", "cpu")
Json = dict[str, Any]


def containers(prefix: str, **more: Any) -> st.SearchStrategy[list[Json]]:
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


@given(
    mains=containers("m"),
    inits=containers("i", restartPolicy=st.just("Always")),
    more=st.fixed_dictionaries(
        {},
        optional={
            "schedulingGates": st.just([{"name": "example.com/other"}]),
            "resourceClaims": st.just([{"name": "old", "resourceClaimName": "x"}]),
            "nodeName": st.just("n"),
        },
    ),
)
def test_it_writes_what_the_command_writes(mains: list[Json], inits: list[Json], more: Json):
    spec = {**({"initContainers": inits} if inits else {}), "containers": mains, **more}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    made = POLICY.mutated(Review("CREATE", new=pod, resource="pods", labels=LABELLED))["spec"]
    found = rewrite(spec, mapping([]), gate=True, where="Pod p")
    assert compared(made) == compared(found.spec if found is not None else spec)


def compared(spec: Json) -> Any:
    """Without the order of claims, and without maps that are empty or missing."""

    def parts(one: Json) -> Any:
        found = one.get("resources") or {}
        claims = sorted(claim["name"] for claim in found.get("claims", ()))
        return one["name"], found.get("limits") or {}, found.get("requests") or {}, claims

    return (
        [parts(one) for one in (*spec.get("initContainers", ()), *spec["containers"])],
        sorted(map(str, spec.get("resourceClaims", ()))),
        spec.get("schedulingGates"),
    )


@pytest.mark.parametrize("labels", [{}, {"dra-reconciler.io/rewrite-resources": "false"}])
def test_other_namespaces_are_left_alone(labels: dict[str, str]):
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=labels)
    assert POLICY.mutated(review) == {"spec": spec}
