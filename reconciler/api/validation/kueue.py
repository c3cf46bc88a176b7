"""The kinds of Kueue: of its resource definitions, in v1beta2 and v1beta1, what this project uses."""

from typing import Any

from reconciler.api.validation.encoding import same
from reconciler.api.validation.fields import Cause, Field
from reconciler.api.validation.kinds import Review
from reconciler.api.validation.timestamps import parse_timestamp

STATES = ("Pending", "Ready", "Rejected", "Retry")
STATUSES = ("False", "True", "Unknown")
MAX_MESSAGE = 32_768
MAX_UPDATES = 18
MAX_NAME = 316


def check_workload(review: Review) -> list[Cause]:
    """Check the sets of pods, or the conditions and states of admission checks."""
    root = Field(review.new)
    if review.subresource == "status":
        _conditions(root["status"]["conditions"])
        names: set[Any] = set()
        for state in root["status"]["admissionChecks"].items():
            _required(state["name"])
            state["name"].unique(names)
            _required(state["state"])
            if state["state"].present:
                state["state"].one_of(STATES)
            _time(state["lastTransitionTime"])
            _message(state["message"])
            for field in ("requeueAfterSeconds", "retryCount"):
                if state[field].integer() < 0:
                    state[field].invalid("should be greater than or equal to 0")
            state["podSetUpdates"].at_most(MAX_UPDATES)
            for update in state["podSetUpdates"].items():
                _required(update["name"])
        return root.causes
    for one in root["spec"]["podSets"].items():
        _required(one["template"])
        if one["count"].integer() < 0:
            one["count"].invalid("should be greater than or equal to 0")
    return root.causes


def check_admission_check(review: Review) -> list[Cause]:
    """Check the name of the controller, which is immutable, or the conditions."""
    root = Field(review.new)
    if review.subresource == "status":
        _conditions(root["status"]["conditions"])
        return root.causes
    controller = root["spec"]["controllerName"]
    _required(controller)
    if review.old is not None and not same(review.old["spec"].get("controllerName"), controller.value):
        controller.invalid("field is immutable")
    return root.causes


def check_flavor(review: Review) -> list[Cause]:
    """Check that labels are texts."""
    root = Field(review.new)
    for _, label in root["spec"]["nodeLabels"].entries():
        label.text()
    return root.causes


def _conditions(field: Field) -> None:
    types: set[Any] = set()
    for one in field.items():
        for name in ("type", "status", "reason"):
            _required(one[name])
        one["type"].unique(types)
        if one["status"].present:
            one["status"].one_of(STATUSES)
        _time(one["lastTransitionTime"])
        _message(one["message"])


def _required(field: Field) -> None:
    if not field.present:
        field.required()


def _time(field: Field) -> None:
    _required(field)
    if field.present:
        try:
            parse_timestamp(field.text())
        except ValueError:
            field.invalid("must be a time in RFC 3339 format")


def _message(field: Field) -> None:
    _required(field)
    if len(field.text().encode()) > MAX_MESSAGE:
        field.too_long(MAX_MESSAGE)
