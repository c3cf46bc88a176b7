"""Taints, tolerations and DeviceTaintRules (DEV-8, CLM-5, TNT-7)."""

from collections.abc import Iterable
from datetime import datetime

from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.names import (
    driver_name,
    is_label_name,
    label_name,
    label_value,
    pool_name,
)
from reconciler.api.validation.timestamps import timestamp

EFFECTS = ("None", "NoExecute", "NoSchedule")


def check_taint(taint: Field) -> None:
    """Check a taint of a device or a rule."""
    label_name(taint["key"])
    label_value(taint["value"])
    if not taint["effect"].text():
        taint["effect"].required()
    else:
        taint["effect"].one_of(EFFECTS)
    taint["timeAdded"].text()


def check_tolerations(tolerations: Field) -> None:
    """Check the tolerations of a request."""
    for toleration in tolerations.items():
        key, operator = toleration["key"].text(), toleration["operator"].text()
        if key and not is_label_name(key):
            toleration["key"].invalid("must be a label name")
        if operator not in ("Equal", "Exists"):
            toleration["operator"].unsupported(("Equal", "Exists"))
        if operator == "Exists" and toleration["value"].text():
            toleration["value"].invalid("must be empty for operator `Exists`")
        if operator == "Equal":
            label_value(toleration["value"])
        if toleration["effect"].text():
            toleration["effect"].one_of(EFFECTS)
        toleration["tolerationSeconds"].integer()


def default_taints(taints: object, now: datetime) -> None:
    """Set timeAdded of a taint to now by default."""
    for taint in taints if isinstance(taints, list) else ():
        if isinstance(taint, dict):
            taint.setdefault("timeAdded", timestamp(now))


def default_tolerations(tolerations: object) -> None:
    """Set the default operator of tolerations: Equal."""
    for toleration in tolerations if isinstance(tolerations, Iterable) else ():
        if isinstance(toleration, dict) and not toleration.get("operator"):
            toleration["operator"] = "Equal"


def default_rule(rule: Object, now: datetime) -> None:
    """Set the defaults of a DeviceTaintRule."""
    spec = rule.get("spec")
    if isinstance(spec, dict):
        default_taints([spec.get("taint")], now)


def check_rule(review: Review) -> list[Cause]:
    """Check a DeviceTaintRule."""
    root = Field(review.new)
    spec = root["spec"]
    selector = spec["deviceSelector"]
    if selector["driver"].present:
        driver_name(selector["driver"])
    if selector["pool"].present:
        pool_name(selector["pool"])
    selector["device"].text()
    if not spec["taint"].present:
        spec["taint"].required()
    else:
        check_taint(spec["taint"])
    return root.causes
