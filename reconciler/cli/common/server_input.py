"""Reads manifests for an API server: what it does not serve is converted first."""

import sys
from collections.abc import Sequence
from typing import Any

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Refusal, documents
from reconciler.api.manifests.served import as_served
from reconciler.api.versions.reading import needs_conversion
from reconciler.cli.common.conversion import convert_bundle, report_conversion
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.input import report_refused, report_warnings


def read_for_server(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Read all objects of the manifests in the form that a server stores. Exits if one is invalid."""
    found = list(documents(paths, sys.stdin.buffer))
    refused = [document for document in found if isinstance(document, Refusal)]
    report_refused(refused)
    if refused:
        sys.exit(Exit.FAILED)
    warnings: list[str] = []
    raws = as_served(_servable([one for one in found if isinstance(one, Document)]), warnings.append)
    report_warnings(warnings)
    return raws


def _servable(found: Sequence[Document]) -> list[dict[str, Any]]:
    """The objects, those in older versions and shapes converted as `convert` does, in their order."""
    older = [number for number, document in enumerate(found) if needs_conversion(document.raw)]
    kept = [(number, dict(one.raw)) for number, one in enumerate(found) if number not in set(older)]
    if not older:
        return [raw for _, raw in kept]
    read = bundle(found[number] for number in older)
    report_warnings(read.warnings)
    report_refused(read.refused)
    conversion = convert_bundle(read)
    report_conversion(conversion.result)
    if read.refused or conversion.result.problems:
        sys.exit(Exit.FAILED)
    kept += [(older[number], raw) for number, raw in conversion.numbered]
    return [raw for _, raw in sorted(kept, key=lambda pair: pair[0])]
