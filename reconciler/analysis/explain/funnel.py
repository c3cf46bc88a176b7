"""How many devices each gate leaves, one gate after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.allocation.dra.static_match import resolve
from reconciler.allocation.reasons.explanation import Failing, Shortage, Step
from reconciler.allocation.reasons.kinds import Kind
from reconciler.analysis.explain.gates import SELECTION, Gate, gates_of, problem
from reconciler.analysis.explain.places import Places
from reconciler.analysis.explain.shortage import shortages
from reconciler.state.devices.exclusion import modes
from reconciler.state.devices.snapshot.snapshot import Snapshot


class Have(NamedTuple):
    """Per node (N,): the devices that a request option could take there, and how many of them it wants."""

    have: Amounts
    wanted: Amounts
    """Never 0: nobody is content with no device"""

    @property
    def enough(self) -> Mask:
        return self.have >= self.wanted


@dataclass(frozen=True, slots=True, eq=False)
class Sieve:
    """A request option, its gates over D devices, and what passes all of them."""

    option: RequestOption
    gates: tuple[Gate, ...]
    left: Mask
    """(D,)"""
    nodes: Have
    of_kind: Mask
    """(D,) devices that are what is asked for, whoever holds them"""
    meant: Amounts
    """(N,) how many of those each node has"""


def sift(option: RequestOption, world: Snapshot, places: Places) -> Sieve:
    """Judge the fleet for a request option, each device on its own."""
    gates = gates_of(option, world, places)
    left = _all_of(gates, world.fleet.size)
    have = places.counts(left)
    of_kind = _all_of([gate for gate in gates if gate.kind in SELECTION], world.fleet.size)
    meant = places.counts(of_kind)
    wanted = np.maximum(meant, 1) if option.all else np.full(len(places.names), option.source.wanted)
    return Sieve(option, tuple(gates), left, Have(have, wanted), of_kind, meant)


def _all_of(gates: Sequence[Gate], size: int) -> Mask:
    alive = np.ones(size, dtype=np.bool_)
    for gate in gates:
        alive &= gate.passed
    return alive


@dataclass(frozen=True, slots=True, eq=False)
class Funnel:
    """The steps of a funnel, and what was learned on the way."""

    steps: tuple[Step, ...]
    shortages: tuple[Shortage, ...]
    failing: tuple[Failing, ...]


def funnel(sieve: Sieve, world: Snapshot) -> Funnel:
    """The gates of single devices, in order."""
    alive = np.ones(world.fleet.size, dtype=np.bool_)
    steps: list[Step] = []
    short: tuple[Shortage, ...] = ()
    failing: list[Failing] = []
    for gate in sieve.gates:
        errors = np.flatnonzero(alive & gate.error) if gate.error is not None else np.zeros(0, np.intp)
        if len(errors):
            failing.append(_failing(sieve.option, gate, int(errors[0]), len(errors), world))
        stopped = np.flatnonzero(alive & ~gate.passed)
        detail = ""
        if gate.kind is Kind.COUNTERS:
            short = shortages(stopped, world)
            detail = str(short[0]) if short else ""
        elif gate.kind is Kind.GROUPS:
            detail = modes.explain(stopped, world)
        alive &= gate.passed
        steps.append(Step(gate.kind, gate.about, int(np.count_nonzero(alive)), len(errors), detail))
    return Funnel(tuple(steps), short, tuple(failing))


def _failing(option: RequestOption, gate: Gate, row: int, count: int, world: Snapshot) -> Failing:
    device = world.fleet.id_of(row)
    uses = option.selectors if gate.kind is Kind.CLASS else filter(None, (gate.use,))
    found = ((use, text) for use in uses if (text := problem(use, world.fleet, row)))
    use, text = next(found, (None, ""))
    if use is not None:
        return Failing(use.where, device, use.expression, text, count)
    code = int(world.fleet.codes["shape"][row])
    where = f"request {option.name}: {gate.about}"
    return Failing(where, device, "", str(resolve(option, [code], world).get(code)), count)
