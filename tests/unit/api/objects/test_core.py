"""Pods: which claims they name, and whether they wait for us."""

import pytest

from reconciler.api.objects.core import GATE, Pod, PodStatus, claims_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated


def pod(**parts: object) -> Pod:
    return Pod.model_validate({"metadata": {"name": "p", "namespace": "ns"}, **parts})


def test_a_claim_named_by_an_entry_is_that_claim():
    entries = [{"name": "gpu", "resourceClaimName": "mine"}]
    assert pod(spec={"resourceClaims": entries}).claim_names() == {"gpu": "mine"}


def test_a_template_without_a_claim_yet_has_none():
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    assert pod(spec={"resourceClaims": entries}).claim_names() == {"gpu": None}


def test_a_template_whose_claim_is_made_has_the_name_from_the_status():
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x7k2"}]}
    assert pod(spec={"resourceClaims": entries}, status=status).claim_names() == {"gpu": "p-gpu-x7k2"}


def test_an_entry_that_needed_no_claim_is_left_out():
    """A status entry without a name says that the control plane made none (SCHED-2)."""
    entries = [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimName": "n"}]
    status = {"resourceClaimStatuses": [{"name": "gpu"}]}
    assert pod(spec={"resourceClaims": entries}, status=status).claim_names() == {"nic": "n"}


def test_entries_keep_the_order_of_the_pod():
    entries = [{"name": name, "resourceClaimName": name} for name in ("z", "a", "m")]
    assert list(pod(spec={"resourceClaims": entries}).claim_names()) == ["z", "a", "m"]


def test_a_pod_with_our_gate_waits_for_us():
    assert pod(spec={"schedulingGates": [{"name": "other"}, {"name": GATE}]}).gated
    assert not pod(spec={"schedulingGates": [{"name": "other"}]}).gated
    assert not pod().gated


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("", False), ("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_is_finished_when_its_phase_says_so(phase: str, finished: bool):
    assert pod(status={"phase": phase}).finished is finished


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
    before = pod(spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]})
    assert claims_of(before) == ()
    made = [{"name": "gpu", "resourceClaimName": "p-gpu"}]
    status = PodStatus.model_validate({"resourceClaimStatuses": made})
    assert claims_of(before.model_copy(update={"status": status})) == (ObjectKey("ns", "p-gpu"),)
    assert claims_of(before) == ()
