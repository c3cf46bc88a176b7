"""Partition tables of the proposal's user story: the partitions of a size are grouped by their link type.

{"2": {"NVLINK": [PARTITION, ...]}}    or    {"2": [{"NVLINK": [PARTITION, ...]}, ...]}
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Struct
from pydantic import Field, TypeAdapter

from kernels.exclusion import rank_by_remaining, remaining_sets, total_weight
from kernels.groups import distinct
from kernels.types import Amounts, Mask, Rows
from reconciler.api.objects.model import ON_USE, Model, Str, Tuple
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.validating import Path, read, validated_annotation
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import HONOR, PREFER, RESTRICTED, PartitionSpec
from reconciler.plugins.koordinator.vocabulary import Device, Minor, Number, Semantics, whole

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
    # A group has lists under its keys; a partition has its minors under that name.
    if (
        isinstance(entry, Mapping)
        and "minors" not in entry
        and any(isinstance(v, list) for v in entry.values())
    ):
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


HOPPER_MODELS = ("H100", "H800", "H20")
UNDECLARED = -1
MAX_PARTITIONS = 1024
MAX_MEMBERS = 256
"""Above any real machine. Limits the cost: a choice compares all pairs of partitions."""
WEIGHTS = {8: 10000, 4: 100, 2: 1}
"""Size -> weight of a partition that is still free, in the release."""


class Partition(Model):
    """GPUs that may be allocated together."""

    minors: Tuple[Minor]
    gpu_link_type: Str = ""
    ring_bus_bandwidth: Quantity | None = None
    allocation_score: Number = 0


class LenientPartition(Partition):
    """A partition in the form of the proposal: a score may be a string; the bandwidth has another name."""

    allocation_score: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    ring_all_reduce_bandwidth: Quantity | None = Field(default=None)

    @property
    def bandwidth(self) -> Quantity | None:
        return self.ring_bus_bandwidth or self.ring_all_reduce_bandwidth


Size = Annotated[int, Field(ge=0, lt=2**31)]

_TABLE: TypeAdapter[Any] = TypeAdapter(dict[Size, Tuple[Partition]] | None, config=ON_USE)
_LENIENT: TypeAdapter[Any] = TypeAdapter(dict[Size, Tuple[LenientPartition]] | None, config=ON_USE)


class PartitionTable(Struct, frozen=True):
    """All partitions of a machine, one row each, as listed."""

    minors: tuple[tuple[int, ...], ...]
    sizes: Amounts
    """(P,) the key under which each is listed."""
    scores: Amounts
    """(P,)"""
    bandwidth: Amounts
    """(P,) -1 without a declared bandwidth."""
    members: Mask
    """(P, M) membership of the minors that occur."""

    def likeness(self) -> Hashable:
        """Equal for equal tables."""
        return self.minors, *(column.tobytes() for column in (self.sizes, self.scores, self.bandwidth))

    def rows(self, size: int) -> Rows:
        return np.flatnonzero(self.sizes == size)

    def groups(self, size: int) -> list[tuple[int, Rows]]:
        """allocationScore, ascending -> rows of one size, as listed."""
        rows = self.rows(size)
        return [(int(score), rows[self.scores[rows] == score]) for score in distinct(self.scores[rows])]


class Candidates(Struct, frozen=True):
    """The GPUs for a choice of partitions."""

    used: Collection[int]
    """GPUs of which any part is allocated."""
    healthy: Collection[int]
    usable: Collection[int]
    """GPUs that this pod may have."""


def table_of(listed: Mapping[int, Sequence[Partition]], subject: str) -> PartitionTable:
    """The rows of a table. Raises Malformed for values out of range."""
    rows = [(size, partition) for size, partitions in listed.items() for partition in partitions]
    occurring = sorted({minor for _, partition in rows for minor in partition.minors})
    if len(rows) > MAX_PARTITIONS or len(occurring) > MAX_MEMBERS:
        found = f"{len(rows)} partitions of {len(occurring)} GPUs"
        raise Malformed(
            subject, koord.PARTITIONS, f"has {found}; at most {MAX_PARTITIONS} of {MAX_MEMBERS} are allowed"
        )
    members = np.zeros((len(rows), len(occurring)), dtype=np.bool_)
    bandwidth = np.full(len(rows), UNDECLARED, dtype=np.int64)
    for number, (_, partition) in enumerate(rows):
        members[number, np.searchsorted(occurring, list(partition.minors))] = True
        declared = (
            partition.bandwidth if isinstance(partition, LenientPartition) else partition.ring_bus_bandwidth
        )
        if declared is not None:
            bandwidth[number] = whole(subject, "ringBusBandwidth", declared)
    return PartitionTable(
        minors=tuple(partition.minors for _, partition in rows),
        sizes=np.array([size for size, _ in rows], dtype=np.int64),
        scores=np.array([partition.allocation_score for _, partition in rows], dtype=np.int64),
        bandwidth=bandwidth,
        members=members,
    )


Listed = dict[int, tuple[Partition, ...]]
"""Size -> partitions as listed"""


def read_table(subject: str, text: str, semantics: Semantics) -> Listed | None:
    """The whole table; None for null. Raises Malformed if any of it cannot be read."""
    if semantics is Semantics.UPSTREAM:
        found: Listed | None = validated_annotation(
            _TABLE, read(subject, koord.PARTITIONS, text), subject, koord.PARTITIONS
        )
        return found
    found, wrong = sound_partitions(subject, text)
    if wrong:
        raise wrong[0]
    return found


def _sound(alone: Mapping[str, Any], number: int, flat: FlatTable, subject: str) -> Listed:
    """A table with one partition, which is entry `number` of the whole. Raises Malformed."""

    def path_in_text(path: Path) -> Path:
        return flat.path_in_text((path[0], number, *path[2:]) if len(path) > 1 else path)

    found: Listed = validated_annotation(
        _LENIENT, alone, subject, koord.PARTITIONS, path_in_text=path_in_text
    )
    return found


def sound_partitions(subject: str, text: str) -> tuple[Listed | None, tuple[Malformed, ...]]:
    """The partitions that can be read, and what is wrong with the others; None for null. Raises Malformed."""
    flat = FlatTable(read(subject, koord.PARTITIONS, text))
    if not isinstance(flat.value, Mapping):
        return validated_annotation(_LENIENT, flat.value, subject, koord.PARTITIONS), ()
    found, wrong = Listed(), list[Malformed]()
    for size, of_size in flat.value.items():
        entries = [[one] for one in of_size] if isinstance(of_size, list) and of_size else [of_size]
        for number, entry in enumerate(entries):
            try:
                alone = _sound({size: entry}, number, flat, subject)
            except Malformed as exc:
                wrong.append(exc)
                continue
            for key, partitions in alone.items():
                found[key] = (*found.get(key, ()), *partitions)
    return found, tuple(wrong)


@cache
def built_in() -> PartitionTable:
    """Eight GPUs behind one switch: single GPUs, adjacent pairs and groups of four, or all."""
    listed = {
        size: [
            Partition(minors=tuple(range(first, first + size)), allocation_score=1)
            for first in range(0, 8, size)
        ]
        for size in (1, 2, 4, 8)
    }
    return table_of(listed, "the built-in table")


def honors(labels: Mapping[str, str]) -> bool:
    """Whether only listed partitions may be allocated; otherwise they are preferred."""
    return labels.get(koord.PARTITION_POLICY) == HONOR


class MachinePartitions(NamedTuple):
    """What a machine says about partitions."""

    table: PartitionTable | None
    honored: bool
    unknown_policy: str
    """Nobody knows whether the table must be honoured then; empty if it is known"""
    notes: tuple[str, ...]
    """Its invalid parts"""


def machine_partitions(
    device: Device, node_labels: Mapping[str, str], semantics: Semantics
) -> MachinePartitions:
    """The table of a machine, and its policy."""
    subject, labels = f"Device {device.metadata.name}", device.metadata.labels
    table, notes = _own_table(device, subject, semantics)
    unknown = ""
    if semantics is Semantics.UPSTREAM:
        # The release reads the policy from the object that has the table.
        policy = labels if table is not None else node_labels
    else:
        policy = labels if koord.PARTITION_POLICY in labels else node_labels
        given = policy.get(koord.PARTITION_POLICY, "")
        if given not in ("", HONOR, PREFER):
            unknown = given
            which = subject if policy is labels else f"Node {device.metadata.name}"
            why = f"{given!r} is not one of {HONOR}, {PREFER}; no GPU is given"
            notes += (f"{which}: {koord.PARTITION_POLICY}: {why}",)
    hopper = (
        node_labels.get(koord.GPU_MODEL) in HOPPER_MODELS
        and node_labels.get(koord.GPU_VENDOR, "nvidia") == "nvidia"
    )
    if table is None and hopper:
        table = built_in()
    return MachinePartitions(table, honors(policy), unknown, notes)


def _own_table(
    device: Device, subject: str, semantics: Semantics
) -> tuple[PartitionTable | None, tuple[str, ...]]:
    text = device.metadata.annotations.get(koord.PARTITIONS)
    if text is None:
        return None, ()
    try:
        if semantics is Semantics.UPSTREAM:
            listed = read_table(subject, text, semantics)
            return (None if listed is None else table_of(listed, subject)), ()
        listed, wrong = sound_partitions(subject, text)
        if listed is None or (wrong and not listed):
            return None, tuple(map(str, wrong))
        notes = tuple(f"{one}; this partition is skipped" for one in wrong)
        sound = {
            size: [partition for partition in of_size if len(set(partition.minors)) == size]
            for size, of_size in listed.items()
        }
        total = sum(map(len, listed.values()))
        dropped = total - sum(map(len, sound.values()))
        if dropped:
            notes += (f"{subject}: {dropped} of {total} partitions are listed under the wrong size",)
        return table_of(sound, subject), notes
    except Malformed as exc:
        return None, (str(exc),)


def choices(
    table: PartitionTable, size: int, spec: PartitionSpec, among: Candidates, semantics: Semantics
) -> list[list[tuple[int, ...]]]:
    """The partitions of a size that can be allocated, the best first, in groups of equal rank.

    The proposal goes from high to low scores. The release goes from low to high scores and stops at the first
    score with a feasible partition.
    """
    upstream = semantics is Semantics.UPSTREAM
    groups = [rows for _, rows in table.groups(size)]
    if not upstream:
        groups.reverse()
    if spec.allocate_policy == RESTRICTED:
        groups = groups[:1]
    found: list[list[tuple[int, ...]]] = []
    for rows in groups:
        feasible = [row for row in rows.tolist() if _feasible(table, row, spec, among)]
        if not feasible:
            continue
        picks = np.array(feasible, dtype=np.intp)
        ranks = _released_ranks(table, size, picks, among) if upstream else _ranks(table, picks, among)
        found += [
            [table.minors[row] for row in picks[ranks == rank].tolist()] for rank in range(ranks.max() + 1)
        ]
        if upstream:
            break
    return found


def broken_by(table: PartitionTable, among: Candidates) -> Mapping[int, tuple[int, ...]]:
    """GPU -> how many free partitions its use would break, those of the highest score first."""
    alive = [all(m not in among.used and m in among.healthy for m in minors) for minors in table.minors]
    scores = sorted(distinct(table.scores[alive]).tolist(), reverse=True)
    rows = [row for row, is_alive in enumerate(alive) if is_alive]
    return {
        minor: tuple(
            sum(minor in table.minors[row] for row in rows if table.scores[row] == score) for score in scores
        )
        for minor in among.usable
    }


def _feasible(table: PartitionTable, row: int, spec: PartitionSpec, among: Candidates) -> bool:
    wanted = spec.ring_bus_bandwidth
    # An undeclared bandwidth is below any requested one.
    if wanted is not None and int(table.bandwidth[row]) < max(wanted.integer, 0):
        return False
    return all(minor not in among.used and minor in among.usable for minor in table.minors[row])


def _ranks(table: PartitionTable, picks: Rows, among: Candidates) -> Rows:
    alive = np.array(
        [all(m not in among.used and m in among.healthy for m in minors) for minors in table.minors]
    )
    left = remaining_sets(table.members, alive, picks)
    return rank_by_remaining(left, table.sizes, np.maximum(table.bandwidth, 0))


def _released_ranks(table: PartitionTable, size: int, picks: Rows, among: Candidates) -> Rows:
    weights = np.zeros(len(table.minors), dtype=np.int64)
    for larger, weight in WEIGHTS.items():
        if larger >= size and (groups := table.groups(larger)):
            score, rows = groups[0]
            weights[rows] = weight * score
    alive = np.array([all(m not in among.used for m in minors) for minors in table.minors])
    value = total_weight(remaining_sets(table.members, alive, picks), weights)
    ranks: Rows = np.unique(-value, return_inverse=True)[1]
    return ranks
