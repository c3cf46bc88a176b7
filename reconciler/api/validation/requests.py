"""Device requests of claims, templates and classes: validation (CLM-1 to CLM-5) and defaults."""

from reconciler.api.validation.amounts import canonical_values, quantity
from reconciler.api.validation.encoding import encode
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.names import dns_label, dns_subdomain, driver_name, fully_qualified_name
from reconciler.api.validation.taints import check_tolerations, default_tolerations

MAX_REQUESTS = 32
MAX_ALTERNATIVES = 8
MAX_SELECTORS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIGS = 32
MAX_DERIVED_ATTRIBUTES = 8
MAX_EXPRESSION = 10 * 1024
MAX_PARAMETERS = 10 * 1024
NO_SUCH_REQUEST = "must name a request of the claim, or one of its alternatives as `request/name`"


def check_devices(devices: Field) -> None:
    """Check `spec.devices` of a claim."""
    requests = devices["requests"]
    requests.at_most(MAX_REQUESTS)
    names: set[str] = set()
    for request in requests.items():
        dns_label(request["name"])
        request["name"].unique(names)
        _request(request)
    known = request_names(devices)
    devices["constraints"].at_most(MAX_CONSTRAINTS)
    for constraint in devices["constraints"].items():
        check_references(constraint["requests"], known)
        given = [key for key in ("matchAttribute", "distinctAttribute") if constraint[key].present]
        if not given:
            constraint["matchAttribute"].required()
        for key in given:
            fully_qualified_name(constraint[key])
    check_configs(devices["config"], known)


def request_names(devices: Field) -> set[str]:
    """The names that results, constraints and configs may use: `request` or `request/alternative`."""
    names = set()
    for request in devices["requests"].items():
        name = request["name"].text()
        names.add(name)
        names.update(f"{name}/{sub['name'].text()}" for sub in request["firstAvailable"].items())
    return names


def check_references(references: Field, known: set[str]) -> None:
    """Check a list of references: each exists and occurs once."""
    references.at_most(MAX_REQUESTS)
    seen: set[str] = set()
    for reference in references.items():
        if reference.text() not in known:
            reference.invalid(NO_SUCH_REQUEST)
        reference.unique(seen)


def check_configs(configs: Field, known: set[str], *, limit: int = MAX_CONFIGS) -> None:
    """Check opaque configs, each for some or all of the requests."""
    configs.at_most(limit)
    for config in configs.items():
        check_references(config["requests"], known)
        check_opaque(config["opaque"])


def check_opaque(opaque: Field) -> None:
    """Check the parameters of one driver."""
    if not opaque.present:
        opaque.required()
        return
    driver_name(opaque["driver"])
    parameters = opaque["parameters"]
    if not parameters.present:
        parameters.required()
    elif not isinstance(parameters.value, dict):
        parameters.invalid("must be an object")
    elif len(encode(parameters.value)) > MAX_PARAMETERS:
        parameters.too_long(MAX_PARAMETERS)


def check_selectors(selectors: Field) -> None:
    """Check shape and size only: expressions are compiled where they are evaluated."""
    selectors.at_most(MAX_SELECTORS)
    for selector in selectors.items():
        expression = selector["cel"]["expression"]
        if not selector["cel"].present:
            selector["cel"].required()
        elif not expression.text():
            expression.required()
        elif len(expression.text().encode()) > MAX_EXPRESSION:
            expression.too_long(MAX_EXPRESSION)


def _request(request: Field) -> None:
    exactly, alternatives = request["exactly"], request["firstAvailable"]
    if exactly.present == bool(alternatives.items()):
        request.required("exactly one of `exactly` or `firstAvailable` is required")
    if exactly.present:
        _wants(exactly)
        exactly["adminAccess"].flag()
    alternatives.at_most(MAX_ALTERNATIVES)
    names: set[str] = set()
    for alternative in alternatives.items():
        dns_label(alternative["name"])
        alternative["name"].unique(names)
        _wants(alternative)


def _wants(request: Field) -> None:
    """CLM-2: rules for `exactly` and for each alternative."""
    dns_subdomain(request["deviceClassName"])
    check_selectors(request["selectors"])
    mode, count = request["allocationMode"], request["count"]
    if mode.text() == "ExactCount":
        if count.integer() <= 0:
            count.invalid("must be greater than zero")
    elif mode.text() == "All":
        if count.integer() != 0:
            count.invalid("must not be specified when allocationMode is 'All'")
    else:
        mode.unsupported(("ExactCount", "All"))
    check_tolerations(request["tolerations"])
    for _, amount in request["capacity"]["requests"].entries():
        quantity(amount)
    request["derivedAttributes"].at_most(MAX_DERIVED_ATTRIBUTES)


def default_devices(devices: object) -> None:
    """CLM-8, for `exactly` and every alternative."""
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        return
    for request in devices["requests"]:
        if not isinstance(request, dict):
            continue
        alternatives = request.get("firstAvailable")
        for wants in [request.get("exactly"), *(alternatives if isinstance(alternatives, list) else ())]:
            if isinstance(wants, dict):
                _default_wants(wants)


def _default_wants(wants: Object) -> None:
    wants["allocationMode"] = wants.get("allocationMode") or "ExactCount"
    if wants["allocationMode"] == "ExactCount" and not wants.get("count"):
        wants["count"] = 1
    default_tolerations(wants.get("tolerations"))
    if isinstance(wants.get("capacity"), dict):
        canonical_values(wants["capacity"].get("requests"))
