"""Pods: which claims they name, and whether they wait for us."""

from typing import Any

import pytest

from reconciler.api.objects.core import GATE, Pod, PodStatus, claims_of, is_report
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from tests.tools.small_fleet import pod
from tests.tools.unit_pictures import as_pod


def read_pod(**parts: object) -> Pod:
    return Pod.model_validate({"metadata": {"name": "p", "namespace": "ns"}, **parts})


def test_an_entry_that_needed_no_claim_is_left_out():
    """A status entry without a name says that the control plane made none (SCHED-2)."""
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimName": "n"}]
    status = {"resourceClaimStatuses": [{"name": "gpu"}]}
    assert read_pod(spec={"resourceClaims": entries}, status=status).claim_names() == {"nic": "n"}


def test_null_stands_for_an_absent_list_or_map():
    """The API treats them alike, and clients write both."""
    spec = {"resourceClaims": None, "nodeSelector": None}
    raw = {"metadata": {"name": "p"}, "spec": spec, "status": {"resourceClaimStatuses": None}}
    empty = validated(Pod, raw)
    assert empty.spec.resource_claims == ()
    assert empty.spec.node_selector == {}
    assert empty.claim_names() == {}


def test_a_copy_of_a_pod_names_its_own_claims():
    """Which claims a pod names is kept, and a copy may name others."""
    before = read_pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})
    assert claims_of(before) == ()
    made = [{"name": "gpu", "resourceClaimName": "p-gpu"}]
    status = PodStatus.model_validate({"resourceClaimStatuses": made})
    assert claims_of(before.model_copy(update={"status": status})) == (ObjectKey("ns", "p-gpu"),)
    assert claims_of(before) == ()


LIVE: dict[str, Any] = {"phase": "Running"}


def bound(status: dict[str, Any], *, gates: tuple[str, ...] = (), **spec: Any) -> Any:
    raw = pod("p", "a", gates=gates, **{"nodeName": "n", **spec})
    return as_pod({**raw, "metadata": {**raw["metadata"], "uid": "u"}, "status": status})


def test_a_new_status_of_a_bound_pod_is_a_report():
    assert is_report(bound({"phase": "Pending"}), bound(LIVE))


@pytest.mark.parametrize(
    ("before", "both"),
    [
        pytest.param(LIVE, {"nodeName": ""}, id="on no node"),
        pytest.param(LIVE, {"gates": (GATE,)}, id="gated"),
        pytest.param({"phase": "Failed"}, {}, id="it had ended"),
    ],
)
def test_what_holds_of_both_versions_can_make_it_none(before: dict[str, Any], both: dict[str, Any]):
    """Their specs are equal."""
    assert not is_report(bound(before, **both), bound(LIVE, **both))
