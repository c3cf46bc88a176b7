"""Runs all checks and sorts their findings."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from reconciler.analysis.doctor import (
    claims,
    counters,
    exclusion,
    first_revision,
    koordinator,
    koordinator_pods,
    limits,
    nodes,
    order,
    pools,
    rules,
    selectors,
    shape,
    slips,
    unknown,
)
from reconciler.analysis.doctor.findings import Finding, Severity
from reconciler.analysis.doctor.input import DoctorInput

CHECKS: Final[tuple[Callable[[DoctorInput], Iterator[Finding]], ...]] = (
    shape.unreadable,
    shape.put_right,
    shape.old_version,
    shape.duplicate_object,
    unknown.unknown_fields,
    slips.unrendered,
    slips.claim_sources,
    koordinator.shape,
    koordinator.partitions,
    koordinator.values,
    koordinator_pods.requests,
    koordinator_pods.units,
    limits.api_rules,
    first_revision.limits,
    pools.incomplete,
    pools.obsolete,
    pools.disagreeing,
    pools.duplicate_devices,
    counters.duplicate_sets,
    counters.dangling,
    counters.never_fits,
    counters.unused,
    counters.overcommitted,
    order.larger_first,
    selectors.missing_class,
    selectors.refused,
    selectors.raising,
    selectors.matching_nothing,
    selectors.foreign_domain,
    nodes.no_selection,
    nodes.bad_selector,
    nodes.several_terms,
    nodes.matches_no_node,
    claims.doubly_held,
    claims.unknown_devices,
    claims.at_odds,
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


def examine(data: DoctorInput) -> list[Finding]:
    """The findings of all checks, worst first, then by place."""
    found = [finding for check in CHECKS for finding in check(data)]
    # Skip an API rule for a field if a check of ours already reports an error there.
    reported = {
        (one.origin, one.field)
        for one in found
        if one.check != rules.API_RULES.id and one.field and one.severity is Severity.ERROR
    }
    kept = [
        one for one in found if one.check != rules.API_RULES.id or (one.origin, one.field) not in reported
    ]
    return worst_first(kept)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in the order of the report: by severity, then by place."""
    return sorted(findings, key=lambda one: (_WORST_FIRST.index(one.severity), one.origin))
