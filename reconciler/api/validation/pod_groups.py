"""PodGroups and Workloads: validation at creation, and of the few updates that are allowed."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.validation.bodies import same
from reconciler.api.validation.fields import Field, dns_label, dns_subdomain, label_name, named
from reconciler.api.validation.kinds import Review
from reconciler.api.validation.pods import check_claim_sources

MAX_CLAIMS = 4
MAX_TOPOLOGY = 1
MAX_TEMPLATES = 8
MAX_DEPTH = 4
"""Levels of templates in a Workload"""
MAX_PRIORITY = 1_000_000_000
PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")
_IMMUTABLE = "field is immutable"
_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")


def check_pod_group(root: Field, review: Review) -> None:
    """Check a PodGroup of scheduling.k8s.io, or the names in its status. Of its spec, minCount may change."""
    if review.subresource == "status":
        list(named(root["status"]["resourceClaimStatuses"], MAX_CLAIMS))
        return
    check_group_spec(root["spec"])
    if review.old is not None:
        _check_changes(root["spec"], review.old.get("spec") or {})


def check_composite_group(root: Field, review: Review) -> None:
    """Check a CompositePodGroup. Nothing of its spec may change, and its status is not checked."""
    if review.subresource == "status":
        return
    spec = root["spec"]
    check_composite_spec(spec)
    old = review.old.get("spec") or {} if review.old is not None else spec.object()
    _check_kept(spec, old, sorted({*spec.object(), *old}))


def check_group_spec(spec: Field) -> None:
    """Check the spec of a PodGroup. One with a parent is made from a template of a Workload."""
    _check_group(spec)
    if spec["parentCompositePodGroupName"].present and not spec["workloadRef"].present:
        spec["workloadRef"].required("must be specified when `parentCompositePodGroupName` is set")


def check_composite_spec(spec: Field) -> None:
    """Check the spec of a CompositePodGroup."""
    _check_policy(spec, "minGroupCount")
    _check_shared(spec)
    if not spec["workloadRef"].present:
        spec["workloadRef"].required()


def check_workload(root: Field, review: Review) -> None:
    """Check a Workload. Of its templates, only minCount may change."""
    spec = root["spec"]
    if spec["podGroupTemplates"].present == spec["compositePodGroupTemplates"].present:
        spec.invalid("must specify exactly one of: `compositePodGroupTemplates`, `podGroupTemplates`")
    _check_templates(spec, depth=1)
    if spec["controllerRef"].present:
        for name in ("kind", "name"):
            spec["controllerRef"][name].needed()
    if review.old is not None:
        _check_templates_kept(spec, review.old.get("spec") or {}, ("controllerRef",))


def _check_templates(holder: Field, depth: int) -> None:
    for kind in _TEMPLATES:
        for template in named(holder[kind], MAX_TEMPLATES):
            if kind == "podGroupTemplates":
                _check_group(template)
                continue
            _check_policy(template, "minGroupCount")
            _check_shared(template)
            if depth >= MAX_DEPTH:
                template.invalid(f"templates may nest at most {MAX_DEPTH} levels")
            else:
                _check_templates(template, depth + 1)


def _check_group(spec: Field) -> None:
    """Check the spec of a PodGroup, or a template of one."""
    _check_policy(spec, "minCount")
    _check_shared(spec)
    check_claim_sources(spec["resourceClaims"], MAX_CLAIMS)


def _check_policy(spec: Field, count: str) -> None:
    policy = spec["schedulingPolicy"]
    _check_one_of(policy, "basic", "gang")
    if policy["gang"].present and policy["gang"][count].integer() < 1:
        policy["gang"][count].invalid("must be greater than zero")


def _check_shared(spec: Field) -> None:
    """Check what groups of pods and groups of groups have in common."""
    topology = spec["schedulingConstraints"]["topology"]
    topology.at_most(MAX_TOPOLOGY)
    for constraint in topology.items():
        label_name(constraint["key"])
    if spec["disruptionMode"].present:
        _check_one_of(spec["disruptionMode"], "all", "single")
    if spec["priorityClassName"].text():
        dns_subdomain(spec["priorityClassName"])
    if spec["priority"].integer() > MAX_PRIORITY:
        spec["priority"].invalid(f"must be less than or equal to {MAX_PRIORITY}")
    if spec["preemptionPolicy"].present:
        spec["preemptionPolicy"].one_of(PREEMPTION_POLICIES)
    if spec["workloadRef"].present:
        dns_subdomain(spec["workloadRef"]["workloadName"])
        dns_label(spec["workloadRef"]["templateName"])
    if spec["parentCompositePodGroupName"].present:
        dns_subdomain(spec["parentCompositePodGroupName"])


def _check_one_of(union: Field, *members: str) -> None:
    if sum(union[member].present for member in members) != 1:
        words = ", ".join(f"`{member}`" for member in members)
        union.invalid(f"must specify exactly one of: {words}")


def _check_kept(spec: Field, old: Mapping[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if not same(spec[key].value, old.get(key)):
            spec[key].invalid(_IMMUTABLE)


def _check_changes(spec: Field, old: Mapping[str, Any], besides: tuple[str, ...] = ()) -> None:
    """Check that nothing but the least number of a gang has changed. `besides` are checked elsewhere."""
    _check_kept(spec, old, sorted({*spec.object(), *old} - {"schedulingPolicy", *besides}))
    before = old.get("schedulingPolicy") or {}
    for member in ("basic", "gang"):
        if spec["schedulingPolicy"][member].present != (before.get(member) is not None):
            spec["schedulingPolicy"].invalid(_IMMUTABLE)
            return


def _check_templates_kept(spec: Field, old: Mapping[str, Any], fixed: tuple[str, ...]) -> None:
    _check_kept(spec, old, fixed)
    for kind in _TEMPLATES:
        before = {one.get("name"): one for one in old.get(kind) or ()}
        now = spec[kind].items()
        if {one["name"].value for one in now} != before.keys():
            spec[kind].invalid("templates cannot be added or removed")
            continue
        for template in now:
            _check_changes(template, before[template["name"].value], _TEMPLATES)
            _check_templates_kept(template, before[template["name"].value], ())


def check_coscheduling_group(root: Field, _review: Review) -> None:
    """Check the minimum of a PodGroup of scheduling.x-k8s.io, as its resource definition does."""
    minimum = root["spec"]["minMember"]
    if minimum.present and minimum.integer() < 1:
        minimum.invalid("should be greater than or equal to 1")
