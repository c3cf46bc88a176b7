"""Reads a demand from a file."""

from pathlib import Path

from reconciler.allocation.policies.demand import ReadDemand, read_demand
from reconciler.api.manifests.sources import file_text
from reconciler.errors import Malformed


def read_demand_file(path: Path) -> ReadDemand:
    """The demand in a file, and the shapes that are left out. Raises Malformed if nothing can be read."""
    text = file_text(path)
    if isinstance(text, Malformed):
        raise text
    return read_demand(text, str(path))
