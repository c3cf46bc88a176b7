"""PodGroups of Kubernetes and of coscheduling."""

from reconciler.api.validation.encoding import same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Review
from reconciler.api.validation.names import dns_label, dns_subdomain, label_name

MAX_CLAIMS = 4
MAX_TOPOLOGY = 1


def check_pod_group(review: Review) -> list[Cause]:
    """Check a PodGroup of scheduling.k8s.io, or the names in its status. Its spec is immutable."""
    root = Field(review.new)
    if review.subresource == "status":
        names: set[str] = set()
        for entry in root["status"]["resourceClaimStatuses"].items():
            dns_label(entry["name"])
            entry["name"].unique(names)
    elif review.old is None:
        _check_spec(root["spec"])
    elif not same(review.old.get("spec"), review.new.get("spec")):
        root["spec"].invalid("field is immutable")
    return root.causes


def _check_spec(spec: Field) -> None:
    policy = spec["schedulingPolicy"]
    if policy["gang"].present == policy["basic"].present:
        policy.invalid("must specify exactly one of: `basic`, `gang`")
    if policy["gang"].present and policy["gang"]["minCount"].integer() < 1:
        policy["gang"]["minCount"].invalid("must be greater than zero")
    topology = spec["schedulingConstraints"]["topology"]
    topology.at_most(MAX_TOPOLOGY)
    for constraint in topology.items():
        label_name(constraint["key"])
    spec["resourceClaims"].at_most(MAX_CLAIMS)
    names: set[str] = set()
    for claim in spec["resourceClaims"].items():
        dns_label(claim["name"])
        claim["name"].unique(names)
        given = [
            claim[key] for key in ("resourceClaimName", "resourceClaimTemplateName") if claim[key].present
        ]
        if len(given) != 1:
            claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for source in given:
            dns_subdomain(source)


def check_coscheduling_group(review: Review) -> list[Cause]:
    """Check the minimum of a PodGroup of scheduling.x-k8s.io, as its resource definition does."""
    root = Field(review.new)
    minimum = root["spec"]["minMember"]
    if minimum.present and minimum.integer() < 1:
        minimum.invalid("should be greater than or equal to 1")
    return root.causes
