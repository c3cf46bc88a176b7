"""The policy that rewrites requests for extended resources does what `dra-reconciler migrate` does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.mapping import mapping
from reconciler.api.migrate.pods import rewrite
from tests.tools.admission_policies import Policy, Review
from tests.tools.deployed_rights import documents
from tests.tools.extended_requests import comparable, pod_specs

(DOCUMENT,) = (
    one for one in documents("admission")
    if one["metadata"]["name"] == "dra-reconciler-rewrite-resources" and "variables" in one["spec"]
)  # fmt: skip
POLICY = Policy(DOCUMENT)
LABELLED = {"dra-reconciler.io/rewrite-resources": "true"}


@given(spec=pod_specs(nodeName=st.just("n")))
def test_it_writes_what_the_command_writes(spec: dict[str, Any]):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    made = POLICY.mutated(Review("CREATE", new=pod, resource="pods", labels=LABELLED))["spec"]
    found = rewrite(spec, mapping([]), gate=True, where="Pod p")
    assert comparable(made) == comparable(found.spec if found is not None else spec)


@pytest.mark.parametrize("labels", [{}, {"dra-reconciler.io/rewrite-resources": "false"}])
def test_other_namespaces_are_left_alone(labels: dict[str, str]):
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=labels)
    assert POLICY.mutated(review) == {"spec": spec}
