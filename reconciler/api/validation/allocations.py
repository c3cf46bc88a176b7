"""Validation of claim status writes (ST-1 to ST-7)."""

import re
from typing import Any

from reconciler.api.objects.claims import MAX_ALLOCATED_CONFIGS
from reconciler.api.validation.amounts import canonical_values, quantity
from reconciler.api.validation.devices import check_binding_conditions
from reconciler.api.validation.encoding import encode, same
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.names import dns_label, driver_name, pool_name
from reconciler.api.validation.nodes import check_node_selector
from reconciler.api.validation.requests import (
    NO_SUCH_REQUEST,
    check_opaque,
    check_references,
    request_names,
)
from reconciler.api.validation.taints import check_tolerations

ADMIN_LABEL = "resource.kubernetes.io/admin-access"
ADMIN_MISSING = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)
MAX_RESERVED = 256
MAX_RESULTS = 32
MAX_CONDITIONS = 8
MAX_DATA = 10 * 1024
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DEVICE = ("driver", "pool", "device", "shareID")


def default_status(status: object) -> None:
    """Canonical amounts, no empty lists, and no entries for devices that are not allocated (ST-6)."""
    if not isinstance(status, dict):
        return
    results = _results(status)
    for result in results:
        canonical_values(result.get("consumedCapacity"))
    devices = status.get("devices")
    if isinstance(devices, list) and not status.get("allocation"):
        status["devices"] = []
    for key in ("reservedFor", "devices"):
        if status.get(key) == []:
            del status[key]


def check_status(root: Field, review: Review) -> None:
    """Check the new status of a claim against the old one."""
    status, allocation = root["status"], root["status"]["allocation"]
    old = Field((review.old or {}).get("status"))
    _reservations(status, old, deleting="deletionTimestamp" in review.new["metadata"])
    if allocation.present and not old["allocation"].present:
        _allocation(allocation, root["spec"]["devices"])
        _admin_access(allocation, review)
    elif allocation.present and not same(_plain(allocation.value), _plain(old["allocation"].value)):
        allocation.invalid("field is immutable")
    _device_statuses(status)


def _results(status: Object) -> list[Object]:
    allocation = status.get("allocation")
    devices = allocation.get("devices") if isinstance(allocation, dict) else None
    results = devices.get("results") if isinstance(devices, dict) else None
    return [result for result in results if isinstance(result, dict)] if isinstance(results, list) else []


def _plain(value: Any) -> Any:
    """An allocation for comparison: nil and empty are equal."""
    if isinstance(value, dict):
        plain = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in plain.items() if item not in (None, [], {})}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _reservations(status: Field, old: Field, *, deleting: bool) -> None:
    """ST-1 and ST-2."""
    reserved = status["reservedFor"]
    reserved.at_most(MAX_RESERVED)
    before = {entry["uid"].text() for entry in old["reservedFor"].items()}
    seen: set[str] = set()
    for entry in reserved.items():
        entry["apiGroup"].text()
        for key in ("resource", "name", "uid"):
            if not entry[key].text():
                entry[key].required()
        entry["uid"].unique(seen)
        if deleting and entry["uid"].text() not in before:
            entry.forbidden("new entries may not be added while `deletionTimestamp` is set")
    if reserved.items() and not status["allocation"].present:
        reserved.forbidden("may not be specified when `allocated` is not set")


def _allocation(allocation: Field, claimed: Field) -> None:
    """ST-4."""
    known = request_names(claimed)
    results, configs = allocation["devices"]["results"], allocation["devices"]["config"]
    results.at_most(MAX_RESULTS)
    for result in results.items():
        _result(result, known)
    configs.at_most(MAX_ALLOCATED_CONFIGS)
    for config in configs.items():
        if not config["source"].text():
            config["source"].required()
        else:
            config["source"].one_of(("FromClass", "FromClaim"))
        check_references(config["requests"], known)
        check_opaque(config["opaque"])
    if allocation["nodeSelector"].present:
        check_node_selector(allocation["nodeSelector"])
    allocation["allocationTimestamp"].text()


def _result(result: Field, known: set[str]) -> None:
    if result["request"].text() not in known:
        result["request"].invalid(NO_SUCH_REQUEST)
    driver_name(result["driver"])
    pool_name(result["pool"])
    dns_label(result["device"])
    result["adminAccess"].flag()
    check_tolerations(result["tolerations"])
    check_binding_conditions(result)
    if result["shareID"].present and not _UUID.fullmatch(result["shareID"].text()):
        result["shareID"].invalid("must be a lower-case UUID")
    for _, amount in result["consumedCapacity"].entries():
        quantity(amount)


def _admin_access(allocation: Field, review: Review) -> None:
    """ST-7."""
    if review.namespace_labels.get(ADMIN_LABEL) == "true":
        return
    for result in allocation["devices"]["results"].items():
        if result["adminAccess"].flag():
            result["adminAccess"].forbidden(ADMIN_MISSING)


def _device_statuses(status: Field) -> None:
    """ST-6."""
    allocated = {tuple(result.get(key) for key in _DEVICE) for result in _results(status.object())}
    seen: set[object] = set()
    for entry in status["devices"].items():
        device = tuple(entry[key].value for key in _DEVICE)
        for key in _DEVICE:
            entry[key].text()
        if device not in allocated:
            entry.invalid("must be an allocated device in the claim")
        entry.unique(seen, device)
        entry["conditions"].at_most(MAX_CONDITIONS)
        for condition in entry["conditions"].items():
            condition["type"].text()
        data = entry["data"]
        if data.present and not isinstance(data.value, dict):
            data.invalid("must be an object")
        elif data.present and len(encode(data.value)) > MAX_DATA:
            data.too_long(MAX_DATA)
