"""Partition tables of the proposal's user story: the partitions of a size are grouped by their link type.

{"2": {"NVLINK": [PARTITION, ...]}}    or    {"2": [{"NVLINK": [PARTITION, ...]}, ...]}
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.api.koordinator.json_annotations import Path

LINK_TYPE = "gpuLinkType"


class FlatTable:
    """A table with a plain list of partitions for each size, and where each of them was."""

    def __init__(self, table: Any) -> None:
        """Everything that is not grouped by link types stays as it is, also what is invalid."""
        self.value = table
        self._paths: dict[str, list[Path]] = {}
        if isinstance(table, Mapping):
            self.value = {size: self._flat(size, of_size) for size, of_size in table.items()}

    def path_in_text(self, path: Path) -> Path:
        """Where a part of `value` is in the original table."""
        match path:
            case [str(size), int(number), *rest] if size in self._paths:
                return (size, *self._paths[size][number], *rest)
        return path

    def _flat(self, size: str, of_size: Any) -> Any:
        if isinstance(of_size, Mapping):
            found = list(_by_link_type(of_size, ()))
        elif isinstance(of_size, list):
            found = [one for number, entry in enumerate(of_size) for one in _entry(entry, number)]
        else:
            return of_size
        self._paths[size] = [path for path, _ in found]
        return [partition for _, partition in found]


def _entry(entry: Any, number: int) -> Iterator[tuple[Path, Any]]:
    # A group has only lists under its keys; a partition has its minors under that name.
    if isinstance(entry, Mapping) and entry and "minors" not in entry:
        yield from _by_link_type(entry, (number,))
    else:
        yield (number,), entry


def _by_link_type(groups: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for link_type, partitions in groups.items():
        here = (*path, link_type)
        if not isinstance(partitions, list):
            yield here, partitions
            continue
        for number, partition in enumerate(partitions):
            named = isinstance(partition, Mapping)
            yield (*here, number), {LINK_TYPE: link_type, **partition} if named else partition
