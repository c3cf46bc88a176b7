"""PodDisruptionBudgets of policy/v1: what the API server refuses."""

from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Review

_POLICIES = ("IfHealthyBudget", "AlwaysAllow")


def check_budget(review: Review) -> list[Cause]:
    """Check that a budget has one kind of limit, and that its counts are not negative."""
    root = Field(review.new)
    spec, status = root["spec"], root["status"]
    limits = [spec[key] for key in ("minAvailable", "maxUnavailable") if spec[key].present]
    if len(limits) > 1:
        spec.invalid("minAvailable and maxUnavailable cannot be both set")
    for limit in limits:
        if isinstance(limit.value, str):
            number = limit.value.removesuffix("%")
            if number == limit.value or not (number.isdecimal() and int(number) <= 100):
                limit.invalid("must be an integer or a percentage from 0% to 100%")
        elif limit.integer() < 0:
            limit.invalid("must be greater than or equal to 0")
    if spec["unhealthyPodEvictionPolicy"].present:
        spec["unhealthyPodEvictionPolicy"].one_of(_POLICIES)
    for key in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
        if status[key].present and status[key].integer() < 0:
            status[key].invalid("must be greater than or equal to 0")
    return root.causes
