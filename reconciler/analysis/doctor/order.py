"""Checks that smaller devices are listed before larger ones. Source: CTR-12."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts
from reconciler.analysis.doctor import rules
from reconciler.analysis.doctor.findings import Finding, shortened
from reconciler.analysis.doctor.input import DoctorInput, Slices
from reconciler.analysis.doctor.pools import newest
from reconciler.api.manifests.bundle import Entry


class _Drawing(NamedTuple):
    """A device that draws from a counter set."""

    place: tuple[int, int]
    """Index of the slice, and of the device in it, in first-fit order"""
    name: str
    node: str
    """The only node that reaches it, if it is named"""
    amounts: dict[str, int]
    """Counter -> nanos"""
    alone: bool
    """Whether it draws from no other set"""


def larger_first(data: DoctorInput) -> Iterator[Finding]:
    """Devices before others that draw no more of any counter and less of one; one finding for each pool."""
    for slices in data.pools().values():
        current = sorted(newest(slices), key=lambda one: one[1].key.name.encode())
        early = sorted(
            (place, name, of_set, smaller)
            for of_set, members in _by_set(current).items()
            for place, name, smaller in _early(members)
        )
        if early:
            (at, index), name, of_set, smaller = early[0]
            entry: Entry = current[at][0]
            others = len({place for place, *_ in early}) - 1
            verb = "device of the pool precedes" if others == 1 else "devices of the pool precede"
            more = f"; {others} more {verb} smaller ones" if others else ""
            what = f"{name} precedes smaller devices of set {of_set}: {shortened(smaller)}{more}"
            yield rules.LARGER_FIRST.finding(entry, f"spec.devices[{index}]", what)


def _by_set(slices: Slices) -> dict[str, list[_Drawing]]:
    """The devices that draw from each counter set, in first-fit order."""
    found: dict[str, list[_Drawing]] = {}
    for at, (_, source) in enumerate(slices):
        for index, device in enumerate(source.spec.devices):
            node = source.spec.node_name or device.node_name or ""
            alone = len(device.consumes_counters) == 1
            for draw in device.consumes_counters:
                amounts = {name: counter.value.nanos for name, counter in draw.counters.items()}
                drawing = _Drawing((at, index), device.name, node, amounts, alone)
                found.setdefault(draw.counter_set, []).append(drawing)
    return found


def _early(members: list[_Drawing]) -> Iterator[tuple[tuple[int, int], str, list[str]]]:
    """Place and name of each device that precedes smaller ones, and their names."""
    ranks = _ranks(members)
    nodes = np.array([member.node for member in members])
    alone = np.array([member.alone for member in members])
    for at, member in enumerate(members[:-1]):
        mine, later = ranks[at], ranks[at + 1 :]
        smaller = (later <= mine).all(axis=1) & (later < mine).any(axis=1) & alone[at + 1 :]
        if member.node:
            others = nodes[at + 1 :]
            smaller &= (others == member.node) | (others == "")
        if smaller.any():
            yield member.place, member.name, [members[at + 1 + row].name for row in np.flatnonzero(smaller)]


def _ranks(members: list[_Drawing]) -> Amounts:
    """(members, counters) the rank of each amount among those of its counter: nanos may exceed 64 bits."""
    names = sorted({name for member in members for name in member.amounts})
    ranks = np.zeros((len(members), len(names)), dtype=np.int64)
    for column, name in enumerate(names):
        amounts = [member.amounts.get(name, 0) for member in members]
        rank = {amount: number for number, amount in enumerate(sorted(set(amounts)))}
        ranks[:, column] = [rank[amount] for amount in amounts]
    return ranks
