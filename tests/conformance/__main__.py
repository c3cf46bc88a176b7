"""Run suites of conformance cases: python -m tests.conformance {dra|cel|...|podfit|all} [PATH ...]"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tests.conformance.documents import SHARED, Document, documents
from tests.conformance.outcome import Outcome
from tests.conformance.suites import SUITES, outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every mismatch and every case that was skipped, then the counts. 1 if anything failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("suite", choices=[*SUITES, "all"])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=f"default: {SHARED}")
    chosen = parser.parse_args(arguments)
    names = list(SUITES) if chosen.suite == "all" else [chosen.suite]
    found: list[Document] = []
    for path in chosen.paths or [SHARED]:
        if not path.exists():
            parser.error(f"{path} does not exist")
        below = list(documents(path))
        if not any(SUITES[name].recognises(document.data) for name in names for document in below):
            parser.error(f"{path} holds no case of {' or '.join(names)}")
        found += below
    passed = failed = skipped = 0
    for outcome in chain.from_iterable(outcomes(name, found) for name in names):
        _tell(outcome)
        failed += outcome.mismatch is not None
        skipped += bool(outcome.skipped)
        passed += outcome.mismatch is None and not outcome.skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def _tell(outcome: Outcome) -> None:
    if outcome.skipped:
        print(f"skipped {outcome.case}\n  {outcome.skipped}")
    if outcome.mismatch is not None:
        print(f"failed {outcome.case}")
        print(f"  expected {_text(outcome.mismatch.expected)}\n  got      {_text(outcome.mismatch.got)}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
