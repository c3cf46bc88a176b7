"""Findings as JSON, and as SARIF 2.1.0 for tools that show them next to the source."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from reconciler.analysis.doctor.findings import Finding, Severity
from reconciler.analysis.doctor.rules import RULES

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
        for rule in RULES
    ]
    driver = {"name": "dra-reconciler doctor", "version": version, "rules": rules}
    places = {rule.id: at for at, rule in enumerate(RULES)}
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
