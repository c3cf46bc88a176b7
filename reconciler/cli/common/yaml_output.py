"""Values and objects as YAML. PyYAML takes 15 ms to import, so it is imported for that only."""

from collections.abc import Sequence
from typing import Any

import yaml


class _NoAliases(yaml.SafeDumper):
    """Writes no anchors: they are hard to read, and some parsers reject them."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def of_value(value: Any) -> str:
    """One document."""
    return yaml.safe_dump(value, sort_keys=False)


def of_objects(objects: Sequence[dict[str, Any]], **style: Any) -> str:
    """One stream of documents."""
    return yaml.dump_all(objects, Dumper=_NoAliases, sort_keys=False, **style)
