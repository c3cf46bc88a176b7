"""All checks of doctor, in order, and what they found as JSON and as SARIF with stable field names."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from reconciler.analysis.doctor import claims, exclusion, findings, manifests, slices
from reconciler.analysis.doctor.findings import RULES, DoctorInput, Finding, Rule, Severity
from reconciler.api.plugins import PLUGINS

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are of each severity."""
    found = Counter(one.severity for one in findings)
    return {severity.value: found[severity] for severity in Severity}


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """The findings as plain values."""
    return {"summary": counts(findings), "findings": [_finding(one) for one in findings]}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "severity": one.severity.value,
        "check": one.check,
        "object": one.object,
        "field": one.field or None,
        "what": one.what,
        "remedy": one.remedy,
        "file": one.origin.file,
        "line": one.origin.line,
        "item": one.origin.item or None,
    }


def as_sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """One SARIF run."""
    rules = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.summary},
            "help": {"text": rule.remedy},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in every_rule()
    ]
    driver = {"name": "dra-reconciler doctor", "version": version, "rules": rules}
    places = {rule.id: at for at, rule in enumerate(every_rule())}
    results = [_result(one, places[one.check]) for one in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(one: Finding, rule: int) -> dict[str, Any]:
    where = {"artifactLocation": {"uri": _uri(one.origin.file)}, "region": {"startLine": one.origin.line}}
    logical = f"{one.object} {one.field}".strip()
    return {
        "ruleId": one.check,
        "ruleIndex": rule,
        "level": _LEVELS[one.severity],
        "message": {"text": f"{logical}: {one.what}. {one.remedy}"},
        "locations": [
            {"physicalLocation": where, "logicalLocations": [{"fullyQualifiedName": logical}]},
        ],
    }


def _uri(file: str) -> str:
    return PurePath(file).as_uri() if PurePath(file).is_absolute() else quote(file)


Check = Callable[[DoctorInput], Iterator[Finding]]
CHECKS: Final[tuple[Check, ...]] = (
    manifests.unreadable,
    manifests.put_right,
    manifests.old_version,
    manifests.duplicate_object,
    manifests.unknown_fields,
    manifests.unused_fields,
    manifests.unknown_kinds,
    manifests.unrendered,
    manifests.claim_sources,
    claims.claim_entries,
    claims.missing_claims,
    claims.group_trees,
    manifests.api_rules,
    manifests.limits,
    slices.incomplete,
    slices.obsolete,
    slices.disagreeing,
    slices.duplicate_devices,
    slices.counter_problems,
    slices.never_fits,
    slices.unused,
    slices.overcommitted,
    slices.larger_first,
    claims.missing_class,
    claims.refused,
    claims.raising,
    claims.matching_nothing,
    claims.foreign_domain,
    slices.no_selection,
    slices.bad_selector,
    slices.several_terms,
    slices.matches_no_node,
    claims.doubly_held,
    claims.unknown_devices,
    claims.at_odds,
    claims.under_taint,
    exclusion.asymmetric,
    exclusion.failing,
    exclusion.excluding_itself,
    exclusion.lonely_groups,
    exclusion.never_together,
    exclusion.not_compared,
    exclusion.extension_conflicts,
    exclusion.dropped,
)

_WORST_FIRST = list(Severity)


class Checks(NamedTuple):
    """The checks of a plugin, and the rules that their findings name."""

    rules: tuple[Rule, ...]
    checks: tuple[Check, ...]


def every_rule() -> tuple[Rule, ...]:
    """The rules of all checks."""
    return (*RULES, *(rule for more in _of_plugins() for rule in more.rules))


def examine(data: DoctorInput) -> list[Finding]:
    """The findings of all checks, worst first, then by place."""
    found = [finding for check in every_check() for finding in check(data)]
    # Skip an API rule for a field if a check of ours already reports an error there.
    reported = {
        (one.origin, one.field)
        for one in found
        if one.check != findings.API_RULES.id and one.field and one.severity is Severity.ERROR
    }
    kept = [
        one for one in found if one.check != findings.API_RULES.id or (one.origin, one.field) not in reported
    ]
    return worst_first(kept)


def every_check() -> tuple[Check, ...]:
    """All checks, in order."""
    return (*CHECKS, *(check for more in _of_plugins() for check in more.checks))


def _of_plugins() -> Iterator[Checks]:
    return (more for plugin in PLUGINS if (more := plugin.checks()) is not None)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of the report: by severity, then by place."""
    return sorted(findings, key=lambda one: (_WORST_FIRST.index(one.severity), one.origin))
