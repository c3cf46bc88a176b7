"""The page of docs/ that lists all reasons: `python -m reconciler.analysis.explain.page`."""

import sys
from collections.abc import Iterator

from reconciler.allocation.reasons.advice import Whose
from reconciler.allocation.reasons.reasons import REASONS


def reasons_page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Why a claim waits"
    yield ""
    yield "Made by `python -m reconciler.analysis.explain.page > docs/reasons.md`; do not edit."
    yield ""
    yield "Each reason stands in log lines, in Events on claim and pod, and in the metric of waiting claims."
    yield "The words are stable. `dra-reconciler explain` says more about a claim than any of them."
    for whose in Whose:
        yield ""
        yield f"## {whose[0].upper()}{whose[1:]}"
        yield ""
        yield "| reason | what it means | what to do |"
        yield "|---|---|---|"
        for reason, advice in REASONS.items():
            if advice.whose is whose:
                cells = (f"`{reason}`", advice.meaning, advice.remedy)
                yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(reasons_page())
