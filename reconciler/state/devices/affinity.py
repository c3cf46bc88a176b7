"""In which mode a shared device is, by the opaque configurations of its holders. Source: KEP-5981 (AFF-1 to
AFF-4); a preview of 1.38.

The driver's extractors turn configurations into texts, one for each key. All holders of a device must have
the same: that is its mode, and the first holder locks it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Mask, Rows
from reconciler.cel.errors import CelError, CelRefused
from reconciler.cel.extractor import compile_extractor
from reconciler.cel.program import compile_selector
from reconciler.state.caches import Forkable, derived
from reconciler.state.devices.encoding.block import Extractor
from reconciler.state.devices.fleet import Fleet

Mode = tuple[tuple[str, str], ...]
"""Key and text, sorted"""
Extractors = tuple[Extractor, ...]

KEPT_TEXT = 1 << 12
"""Characters of the longest configurations whose modes are cached: most have few, but 640 KiB are allowed"""
CLEAN, UNKNOWN = 0, 1
"""The codes of no lock, and of holders whose mode cannot be told"""


class AffinityKinds(Struct, frozen=True, eq=False):
    """The D devices of a fleet by the extractors that apply to them."""

    of: Codes
    """(D,) position in `extractors`; -1 for devices that may be shared in any mode, or not at all"""
    extractors: tuple[Extractors | str, ...]
    """Those that apply, or why no mode can be told"""
    drivers: tuple[str, ...]
    """Of each, whose configurations they read"""


@derived
def affinity_kinds(fleet: Fleet) -> AffinityKinds | None:
    """The kinds of a fleet; None if no pool has extractors."""
    found: dict[tuple[Extractors | str, str], int] = {}
    of = np.full(fleet.size, -1, dtype=np.int32)
    for driver, extractors, rows in _of_pools(fleet):
        applying, failing = _applying(extractors, rows, fleet)
        patterns, which = np.unique(np.concatenate([applying, failing]), axis=1, return_inverse=True)
        kinds = []
        for pattern in patterns.T.tolist():
            kind = _kind(extractors, pattern)
            kinds.append(found.setdefault((kind, driver), len(found)) if kind else -1)
        of[rows] = np.array([*kinds, -1], dtype=np.int32)[which.reshape(-1)]
    of.setflags(write=False)
    return AffinityKinds(of, *zip(*found, strict=True)) if found else None


def _kind(extractors: Extractors, pattern: Sequence[bool]) -> Extractors | str:
    """The extractors of devices of which it is known which apply and which fail to tell."""
    if any(pattern[len(extractors) :]):
        return "a selector of sharingAffinity fails on the device"
    mine = tuple(one for one, applies in zip(extractors, pattern, strict=False) if applies)
    keys = [key for one in mine for key, _ in one.keys]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    return mine if twice is None else f"two extractors of sharingAffinity apply that have the key {twice}"


def _of_pools(fleet: Fleet) -> Iterator[tuple[str, Extractors, Rows]]:
    """Driver and extractors of each generation of a pool, and the rows of its shared devices."""
    for at, pool in enumerate(fleet.pools):
        for generation in pool.with_affinity:
            own = [block.generation == generation for block in pool.blocks]
            stating = [block for block, mine in zip(pool.blocks, own, strict=True) if mine]
            rows = np.repeat(own, np.diff(pool.offsets)).nonzero()[0] + int(fleet.start[at])
            extractors = tuple(one for block in stating for one in block.affinity)
            yield pool.id.driver, extractors, rows[fleet.shared[rows]]


def _applying(extractors: Extractors, rows: Rows, fleet: Fleet) -> tuple[Mask, Mask]:
    """(E, n) which extractors apply to which devices, and whose selectors fail."""
    applying = np.ones((len(extractors), len(rows)), dtype=np.bool_)
    failing = np.zeros_like(applying)
    for number, one in enumerate(extractors):
        if one.selector is None:
            continue
        try:
            masks = compile_selector(one.selector).masks(fleet.cel)
        except CelRefused:
            failing[number] = True
            continue
        applying[number], failing[number] = masks.true[rows], masks.error[rows]
    return applying, failing


def mode_of(extractors: Extractors | str, configurations: tuple[str, ...]) -> Mode | str:
    """The mode that opaque configurations in JSON ask for, or why none can be told (AFF-2)."""
    if isinstance(extractors, str):
        return extractors
    told = _told if sum(map(len, configurations)) <= KEPT_TEXT else _told.__wrapped__
    return told(extractors, configurations)


@lru_cache(1 << 12)
def _told(extractors: Extractors, configurations: tuple[str, ...]) -> Mode | str:
    objects: list[Any] = [json.loads(text) for text in configurations]
    found: dict[str, str] = {}
    for key, expression in sorted(item for one in extractors for item in one.keys):
        for one in objects:
            try:
                text = compile_extractor(expression).text(one)
            except (CelError, CelRefused) as exc:
                return f"sharingAffinity {key}: {exc}"
            if text and found.setdefault(key, text) != text:
                return f"sharingAffinity {key}: the configurations give {found[key]} and {text}"
        if key not in found:
            return f"sharingAffinity {key}: no opaque configuration of the request gives it"
    return tuple(found.items())


def spelled(mode: Mode) -> str:
    """`subnet=a, pkey=0x8001`."""
    return ", ".join(f"{key}={text}" for key, text in mode)


class Locks(Forkable):
    """The distinct modes of held devices. Numbers stay valid: modes are only added."""

    def __init__(self) -> None:
        self.values: list[Mode | int] = [CLEAN, UNKNOWN]
        """Number -> the mode"""
        self._numbers: dict[Mode, int] = {}

    def find(self, mode: Mode | str) -> int:
        """The number of a mode; -1 if no device was in it."""
        return self._numbers.get(mode, -1) if isinstance(mode, tuple) else -1

    def of_holders(self, extractors: Extractors | str, holders: Iterable[tuple[str, ...]]) -> int:
        """The number of the common mode of some holders, by their configurations (AFF-3)."""
        modes = {mode_of(extractors, configurations) for configurations in holders}
        if not modes:
            return CLEAN
        mode = modes.pop()
        return UNKNOWN if modes or isinstance(mode, str) else self._number(mode)

    def taken_over(self, number: int, others: "Locks") -> int:
        """The number of what has a number in other locks."""
        mode = others.values[number]
        return self._number(mode) if isinstance(mode, tuple) else number

    def _number(self, mode: Mode) -> int:
        if mode not in self._numbers:
            self._numbers[mode] = len(self.values)
            self.values.append(mode)
        return self._numbers[mode]
