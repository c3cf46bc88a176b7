"""The policy that rewrites requests for extended resources does what `dra-reconciler migrate` does."""

import re
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.pods import Template, rewrite
from reconciler.api.migrate.special_claims import MOST, Wanted, mapping
from reconciler.api.migrate.workloads import template_object
from reconciler.cli import main
from reconciler.errors import Malformed
from tests.tools.admission_policies import Policy, Review, comparable, pod_specs, without_refused
from tests.tools.deployed_rights import DEPLOY, documents, policies

(DOCUMENT,) = (
    one for one in documents("admission")
    if one["metadata"]["name"] == "dra-reconciler-rewrite-resources" and "variables" in one["spec"]
)  # fmt: skip
POLICY = Policy(DOCUMENT)
FILES = ("admission/rewrite-resources.yaml", "helm/dra-reconciler/templates/rewrite-resources.yaml")
LABELLED = {"dra-reconciler.io/rewrite-resources": "true"}
TEMPLATES = Policy(next(one for one in policies() if one["metadata"]["name"] == "dra-reconciler-templates"))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_command_in_its_comment_prints_templates_for_kubectl(path: str):
    text = (DEPLOY / path).read_text()
    (command,) = re.findall(r"`dra-reconciler (migrate --templates [^|`]*) \| kubectl apply -f -`", text)
    done = CliRunner().invoke(main, command.split())
    assert done.exit_code == 0, done.stderr
    assert {one["kind"] for one in yaml.safe_load_all(done.stdout)} == {"ResourceClaimTemplate"}


@given(spec=pod_specs(nodeName=st.just("n")))
def test_it_writes_what_the_command_writes(spec: dict[str, Any]):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    made = POLICY.mutated(Review("CREATE", new=pod, resource="pods", labels=LABELLED))["spec"]
    found = rewrite(spec, mapping([]), gate=True, where="Pod p")
    assert comparable(made) == comparable(found.spec if found is not None else spec)


@given(spec=pod_specs(refused=True))
def test_requests_that_the_server_refuses_stay_for_it_to_refuse(spec: dict[str, Any]):
    made = POLICY.mutated(Review("CREATE", new={"spec": spec}, resource="pods", labels=LABELLED))["spec"]
    (left, stayed), (valid, refused) = without_refused(made), without_refused(spec)
    assert stayed == refused
    found = rewrite(valid, mapping([]), gate=True, where="Pod p")
    assert comparable(left) == comparable(found.spec if found is not None else valid)


@pytest.mark.parametrize("limit", [str(MOST + 1), "2k"])
def test_a_pod_that_asks_for_more_than_a_claim_can_have_is_left_alone(limit: str):
    asked = [{"nvidia.com/gpu": limit}, {"nvidia.com/gpu": "1"}]
    resources = [{"limits": one, "requests": one} for one in asked]
    spec = {"containers": [{"name": f"m{at}", "resources": one} for at, one in enumerate(resources)]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=LABELLED)
    assert POLICY.mutated(review) == {"spec": spec}


@pytest.mark.parametrize(
    ("limits", "annotations"),
    [
        ({"nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}, {}),
        ({"nvidia.com/gpumem": "0"}, {"nvidia.com/use-gputype": "A100"}),
        ({}, {"scheduling.koordinator.sh/gpu-partition-spec": "{}"}),
    ],
)
def test_a_pod_that_asks_for_a_share_or_chooses_devices_is_left_alone(
    limits: dict[str, str], annotations: dict[str, str]
):
    """As the command refuses it."""
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1", **limits}}}]}
    pod = {"metadata": {"annotations": annotations}, "spec": spec}
    assert POLICY.mutated(Review("CREATE", new=pod, resource="pods", labels=LABELLED)) == pod
    with pytest.raises(Malformed):
        rewrite(spec, mapping([]), gate=True, where="Pod p", annotations=annotations)


def test_a_fraction_of_a_device_stays_for_the_server_to_refuse():
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1500m"}}}]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=LABELLED)
    assert POLICY.mutated(review) == {"spec": spec}


def test_a_pod_that_asks_for_as_much_as_a_claim_can_have_is_rewritten():
    resources = {"limits": {"nvidia.com/gpu": str(MOST)}}
    spec = {"containers": [{"name": "a", "resources": resources}]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=LABELLED)
    (made,) = POLICY.mutated(review)["spec"]["resourceClaims"]
    assert made["resourceClaimTemplateName"] == f"gpu.nvidia.com-{MOST}"


@pytest.mark.parametrize("labels", [{}, {"dra-reconciler.io/rewrite-resources": "false"}])
def test_other_namespaces_are_left_alone(labels: dict[str, str]):
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    review = Review("CREATE", new={"spec": spec}, resource="pods", labels=labels)
    assert POLICY.mutated(review) == {"spec": spec}


# -- The policy that lets nobody but us, and only where pods are rewritten, make templates like ours.


ADMIN = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]}
CONFIGURED = {"config": [{"opaque": {"driver": "d", "parameters": {}}}], "requests": []}
FLAT = {"requests": [{"name": "r", "deviceClassName": "gpu"}]}
"""As v1beta1 has it"""
FLAT_ADMIN = {"requests": [{"name": "r", "deviceClassName": "gpu", "adminAccess": True}]}
EITHER = {"requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]}]}


@pytest.mark.parametrize(
    ("parts", "allowed"),
    [
        ({}, True),
        ({"labels": {}}, False),
        ({"labels": {"dra-reconciler.io/rewrite-resources": "false"}}, False),
        ({"devices": ADMIN}, False),
        ({"devices": CONFIGURED}, False),
        ({"devices": EITHER}, False),
        ({"devices": FLAT}, True),
        ({"devices": FLAT_ADMIN}, False),
        ({"operation": "UPDATE"}, False),
        ({"labels": {}, "user": "system:serviceaccount:x:y"}, True),
    ],
    ids=[
        "ours", "no label", "label false", "admin",
        "configuration", "alternatives", "flat", "flat admin",
        "update", "somebody",
    ],
)  # fmt: skip
def test_templates_are_only_made_where_pods_are_rewritten(parts: dict[str, Any], allowed: bool):
    made = template_object(Template(Wanted("gpu"), 2), "n")
    asked = {"operation": "CREATE", "labels": LABELLED, **parts}
    devices = asked.pop("devices", None)
    new = made if devices is None else made | {"spec": {"spec": {"devices": devices}}}
    review = Review(old=made, new=new, resource="resourceclaimtemplates", **asked)
    assert (not TEMPLATES.refusals(review)) is allowed
