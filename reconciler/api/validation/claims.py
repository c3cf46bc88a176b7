"""ResourceClaims with their allocations, their templates, and device classes.

Rules of requests: CLM-1 to CLM-5; of status writes: ST-1 to ST-7.
"""

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from reconciler.api.objects.claims import MAX_ALLOCATED_CONFIGS
from reconciler.api.validation import devices as of_devices
from reconciler.api.validation import fields
from reconciler.api.validation.bodies import encode, same
from reconciler.api.validation.kinds import Object, Refuses, Review
from reconciler.api.versions.shapes import mapping, objects

MAX_REQUESTS = 32
MAX_ALTERNATIVES = 8
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_DERIVED_ATTRIBUTES = 32
MAX_PARAMETERS = 10 * 1024
UNUSED = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)
NO_SUCH_REQUEST = "must name a request of the claim, or one of its alternatives as `request/name`"


def check_devices(devices: fields.Field, refuses: Refuses) -> None:
    """Check `spec.devices` of a claim."""
    for request in fields.named(devices["requests"], MAX_REQUESTS):
        _request(request, refuses)
    check_derived(devices, refuses)
    known = request_names(devices)
    devices["constraints"].at_most(MAX_CONSTRAINTS)
    for constraint in devices["constraints"].items():
        check_references(constraint["requests"], known)
        given = [key for key in ("matchAttribute", "distinctAttribute") if constraint[key].present]
        if not given:
            constraint["matchAttribute"].required()
        for key in given:
            fields.fully_qualified_name(constraint[key])
    devices["config"].at_most(MAX_CONFIGS)
    for config in devices["config"].items():
        check_references(config["requests"], known)
        check_opaque(config["opaque"])


def check_derived(devices: fields.Field, refuses: Refuses) -> None:
    """CLM-9: check the derived attributes of all requests."""
    used = {
        (constraint["matchAttribute"].text() or constraint["distinctAttribute"].text(), name)
        for constraint in devices["constraints"].items()
        for name in [one.text() for one in constraint["requests"].items()] or [""]
    }
    cost = 0
    for request in devices["requests"].items():
        name = request["name"].text()
        cost += _derived(request["exactly"], used, ("", name), refuses)
        for one in request["firstAvailable"].items():
            cost += _derived(one, used, ("", name, f"{name}/{one['name'].text()}"), refuses)
    if cost > of_devices.MAX_COST:
        devices.forbidden(f"all derived attributes together: {of_devices.too_complex(cost)}")


def request_names(devices: fields.Field) -> set[str]:
    """The names that results, constraints and configs may use: `request` or `request/alternative`."""
    names = set()
    for request in devices["requests"].items():
        name = request["name"].text()
        names.add(name)
        names.update(f"{name}/{sub['name'].text()}" for sub in request["firstAvailable"].items())
    return names


def check_references(references: fields.Field, known: set[str]) -> None:
    """Check a list of references: each exists and occurs once."""
    references.at_most(MAX_REQUESTS)
    seen: set[str] = set()
    for reference in references.items():
        if reference.text() not in known:
            reference.invalid(NO_SUCH_REQUEST)
        reference.unique(seen)


def check_opaque(opaque: fields.Field) -> None:
    """Check the parameters of one driver."""
    if not opaque.present:
        opaque.required()
        return
    fields.driver_name(opaque["driver"])
    if not opaque["parameters"].present:
        opaque["parameters"].required()
    else:
        _check_object(opaque["parameters"], MAX_PARAMETERS)


def _check_object(content: fields.Field, most: int) -> None:
    """Check what only a driver reads: an object of so many bytes."""
    if not isinstance(content.value, dict):
        content.invalid("must be an object")
    elif len(encode(content.value)) > most:
        content.too_long(most)


def _request(request: fields.Field, refuses: Refuses) -> None:
    exactly, alternatives = request["exactly"], request["firstAvailable"]
    if exactly.present == bool(alternatives.items()):
        request.required("exactly one of `exactly` or `firstAvailable` is required")
    if exactly.present:
        _wants(exactly, refuses)
        exactly["adminAccess"].flag()
    for alternative in fields.named(alternatives, MAX_ALTERNATIVES):
        _wants(alternative, refuses)


def _wants(request: fields.Field, refuses: Refuses) -> None:
    """CLM-2: rules for `exactly` and for each alternative."""
    fields.dns_subdomain(request["deviceClassName"])
    of_devices.check_selectors(request["selectors"], refuses.selector)
    mode, count = request["allocationMode"], request["count"]
    if mode.text() == "ExactCount":
        if count.integer() <= 0:
            count.invalid("must be greater than zero")
    elif mode.text() == "All":
        if count.integer() != 0:
            count.invalid("must not be specified when allocationMode is 'All'")
    else:
        mode.unsupported(("ExactCount", "All"))
    of_devices.check_tolerations(request["tolerations"])
    for _, amount in request["capacity"]["requests"].entries():
        fields.quantity(amount)


def _derived(
    wants: fields.Field, used: Collection[tuple[str, str]], names: Sequence[str], refuses: Refuses
) -> int:
    """Check the derived attributes of a request or alternative.

    names  by which constraints refer to it
    ->     steps of all expressions at worst
    """
    attributes = wants["derivedAttributes"]
    attributes.at_most(MAX_DERIVED_ATTRIBUTES)
    seen: set[str] = set()
    cost = 0
    for attribute in attributes.items():
        name = attribute["name"]
        if not name.text():
            name.required()
        else:
            fields.fully_qualified_name(name)
            name.unique(seen)
            if not any((name.text(), one) in used for one in names):
                name.invalid(UNUSED)
        cost += of_devices.check_expression(attribute["expression"], refuses.derived)
    return cost


def default_devices(devices: object) -> None:
    """CLM-8, for `exactly` and every alternative."""
    for request in objects(mapping(devices).get("requests")):
        for wants in objects([request.get("exactly")]) + objects(request.get("firstAvailable")):
            _default_wants(wants)


def _default_wants(wants: Object) -> None:
    wants["allocationMode"] = wants.get("allocationMode") or "ExactCount"
    if wants["allocationMode"] == "ExactCount" and not wants.get("count"):
        wants["count"] = 1
    of_devices.default_tolerations(wants.get("tolerations"))
    if isinstance(wants.get("capacity"), dict):
        fields.canonical_values(wants["capacity"].get("requests"))


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
    for result in _results(status):
        fields.canonical_values(result.get("consumedCapacity"))
        for of_set in objects(result.get("consumedCounters")):
            fields.canonical_values(of_set.get("counters"))
    if isinstance(status.get("devices"), list) and not status.get("allocation"):
        status["devices"] = []
    for key in ("reservedFor", "devices"):
        if status.get(key) == []:
            del status[key]


def check_status(root: fields.Field, review: Review) -> None:
    """Check the new status of a claim against the old one."""
    status, allocation = root["status"], root["status"]["allocation"]
    old = fields.Field((review.old or {}).get("status"))
    _reservations(status, old, deleting="deletionTimestamp" in review.new["metadata"])
    if allocation.present and not old["allocation"].present:
        _allocation(allocation, root["spec"]["devices"])
        _admin_access(allocation, review)
    elif allocation.present and not same(_plain(allocation.value), _plain(old["allocation"].value)):
        allocation.invalid("field is immutable")
    _device_statuses(status)


def _results(status: Object) -> list[Object]:
    return objects(mapping(mapping(status.get("allocation")).get("devices")).get("results"))


def _plain(value: Any) -> Any:
    """An allocation for comparison: nil and empty are equal."""
    if isinstance(value, dict):
        plain = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in plain.items() if item not in (None, [], {})}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _reservations(status: fields.Field, old: fields.Field, *, deleting: bool) -> None:
    """ST-1 and ST-2."""
    reserved = status["reservedFor"]
    reserved.at_most(MAX_RESERVED)
    before = {entry["uid"].text() for entry in old["reservedFor"].items()}
    seen: set[str] = set()
    for entry in reserved.items():
        entry["apiGroup"].text()
        for key in ("resource", "name", "uid"):
            entry[key].needed()
        entry["uid"].unique(seen)
        if deleting and entry["uid"].text() not in before:
            entry.forbidden("new entries may not be added while `deletionTimestamp` is set")
    if reserved.items() and not status["allocation"].present:
        reserved.forbidden("may not be specified when `allocated` is not set")


def _allocation(allocation: fields.Field, claimed: fields.Field) -> None:
    """ST-4."""
    known = request_names(claimed)
    results, configs = allocation["devices"]["results"], allocation["devices"]["config"]
    results.at_most(MAX_RESULTS)
    for result in results.items():
        _result(result, known)
    configs.at_most(MAX_ALLOCATED_CONFIGS)
    for config in configs.items():
        if config["source"].needed():
            config["source"].one_of(("FromClass", "FromClaim"))
        check_references(config["requests"], known)
        check_opaque(config["opaque"])
    if allocation["nodeSelector"].present:
        of_devices.check_node_selector(allocation["nodeSelector"])
    fields.time(allocation["allocationTimestamp"])


def _result(result: fields.Field, known: set[str]) -> None:
    if result["request"].text() not in known:
        result["request"].invalid(NO_SUCH_REQUEST)
    fields.driver_name(result["driver"])
    fields.pool_name(result["pool"])
    fields.dns_label(result["device"])
    result["adminAccess"].flag()
    of_devices.check_tolerations(result["tolerations"])
    of_devices.check_binding_conditions(result)
    of_devices.check_skipped_operations(result["skipNodeOperations"])
    if result["shareID"].present and not _UUID.fullmatch(result["shareID"].text()):
        result["shareID"].invalid("must be a lower-case UUID")
    for _, amount in result["consumedCapacity"].entries():
        fields.quantity(amount)
    result["consumedCounters"].at_most(of_devices.MAX_COUNTER_SETS)
    for drawn in result["consumedCounters"].items():
        fields.dns_label(drawn["counterSet"])
        for amount in fields.labelled(drawn["counters"]):
            fields.quantity(amount)


def _admin_access(allocation: fields.Field, review: Review) -> None:
    """ST-7."""
    if review.namespace_labels.get(ADMIN_LABEL) == "true":
        return
    for result in allocation["devices"]["results"].items():
        if result["adminAccess"].flag():
            result["adminAccess"].forbidden(ADMIN_MISSING)


def _device_statuses(status: fields.Field) -> None:
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
        if entry["data"].present:
            _check_object(entry["data"], MAX_DATA)


def default_claim(obj: Object, _now: datetime) -> None:
    """Set the defaults of a claim. A claim always has a status, empty at first."""
    default_devices(mapping(obj.get("spec")).get("devices"))
    default_status(obj.setdefault("status", {}))


def check_claim(root: fields.Field, review: Review) -> None:
    """Check a claim at creation, at an update of spec, or at an update of status."""
    if review.subresource == "status":
        check_status(root, review)
        return
    if review.old is None:
        _check_spec(root["spec"], review)
    elif not same(review.old.get("spec"), review.new.get("spec")):
        root["spec"].invalid("field is immutable")


def default_template(obj: Object, _now: datetime) -> None:
    """Set the defaults of the claim in a template."""
    default_devices(mapping(mapping(obj.get("spec")).get("spec")).get("devices"))


def check_template(root: fields.Field, review: Review) -> None:
    """Check a ResourceClaimTemplate: its spec is immutable."""
    if review.old is None:
        root["spec"]["metadata"].object()
        _check_spec(root["spec"]["spec"], review)
    elif not same(review.old.get("spec"), review.new.get("spec")):
        root["spec"].invalid("field is immutable")


def check_class(root: fields.Field, review: Review) -> None:
    """Check a DeviceClass. Selectors that an update leaves as they are were compiled before."""
    spec = root["spec"]
    before = fields.Field(review.old)["spec"]["selectors"]
    kept = review.old is not None and same(before.value, spec["selectors"].value)
    of_devices.check_selectors(spec["selectors"], Refuses().selector if kept else review.refuses.selector)
    spec["config"].at_most(MAX_CONFIGS)
    for config in spec["config"].items():
        check_opaque(config["opaque"])
    if spec["extendedResourceName"].present:
        _extended_resource(spec["extendedResourceName"])


def _extended_resource(field: fields.Field) -> None:
    """A name with a domain that is not Kubernetes' own, also as the name of a quota."""
    name = field.text()
    is_native = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    if is_native or not fields.is_label_name(f"requests.{name}"):
        what = "a DOMAIN without kubernetes.io and requests., a NAME of at most 63 letters, digits, '-_.'"
        field.invalid(f"must be DOMAIN/NAME: {what}")


def _check_spec(spec: fields.Field, review: Review) -> None:
    check_devices(spec["devices"], review.refuses)
    # CLM-6: the label matters only at creation.
    if review.namespace_labels.get(ADMIN_LABEL) == "true":
        return
    for request in spec["devices"]["requests"].items():
        admin = request["exactly"]["adminAccess"]
        if admin.flag():
            admin.forbidden(ADMIN_MISSING)
