"""Learns what each place of a partition is worth to a load, by evolution: weights that keep most in use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Amounts, Rows
from perf.placement.loss_system import Arrival
from perf.placement.profiles import PLACES, PROFILES
from perf.placement.states import CODE, CODES, NEVER, preferences, worth
from perf.workload import Progress

GENERATIONS = 50
CANDIDATES = 24
"""Of each generation"""
SIGMA = 2.0
"""How far the first candidates are from the start"""
STEP = 0.3
WIDER, NARROWER = 1.2, 0.85
"""What SIGMA is multiplied with after a generation that found something better, and after one that did not"""
HEAVIEST = 2**14


def learnt(loads: Sequence[Sequence[Arrival]], gpus: int, seed: int, progress: Progress) -> Amounts:
    """(P,) whole weights of the places; the heaviest is `HEAVIEST`. `loads` are the training runs."""
    random = np.random.default_rng(seed)
    runs = Runs.of(loads)
    best = np.array([float(PROFILES[place.profile].slots) for place in PLACES])
    most, sigma = float(used(worth(_whole(best[None])), runs, gpus)[0]), SIGMA
    for generation in range(GENERATIONS):
        noise = random.normal(size=(CANDIDATES, len(best)))
        tried = np.maximum(best + STEP * sigma * np.maximum(1, np.abs(best)) * noise, 0.01)
        found = used(worth(_whole(tried)), runs, gpus)
        if better := bool(found.max() > most):
            best, most = tried[found.argmax()], float(found.max())
        sigma *= WIDER if better else NARROWER
        progress(generation + 1, GENERATIONS)
    whole: Amounts = _whole(best[None])[0]
    return whole


def _whole(weights: np.ndarray) -> Amounts:
    """(W, P) weights as whole numbers."""
    scaled = weights * (HEAVIEST / weights.max(axis=1, keepdims=True))
    return np.maximum(np.rint(scaled), 1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Runs:
    """R runs of equal length N."""

    kind: Rows
    """(R, N)"""
    worth: np.ndarray
    """(R, N) slices x time of each arrival; 0 in the first fifth"""
    leaving: Sequence[tuple[Rows, Rows]]
    """For each of N arrivals: the runs and numbers of what ends before it"""

    @classmethod
    def of(cls, loads: Sequence[Sequence[Arrival]]) -> "Runs":
        count = len(loads[0])
        slices = np.array([shape.slices for shape in PROFILES.values()])
        kind = np.array([[one.kind for one in load] for load in loads])
        worth = slices[kind] * np.array([[one.lasting for one in load] for load in loads])
        worth[:, : count // 5] = 0
        ending: list[list[tuple[int, int]]] = [[] for _ in range(count + 1)]
        for run, load in enumerate(loads):
            at = [one.at for one in load]
            for number, before in enumerate(np.searchsorted(at, [one.at + one.lasting for one in load])):
                ending[before].append((run, number))
        pairs = [np.array(one, dtype=np.intp).reshape(-1, 2).T for one in ending[:count]]
        return cls(kind, worth, [(one[0], one[1]) for one in pairs])


def used(worths: Amounts, runs: Runs, gpus: int) -> np.ndarray:
    """(W,) slices x time in use where states have the worths (W, S), summed over all runs."""
    keys, places = preferences(worths)
    profiles, (several, count) = len(PROFILES), runs.kind.shape
    keys, places = keys.reshape(-1), places.reshape(-1)
    lanes = len(worths) * several
    of_lane = np.arange(lanes)
    base = (of_lane // several) * profiles * CODES
    run_of = of_lane % several
    state = np.zeros((lanes, gpus), dtype=np.int64)
    flat = state.reshape(-1)
    # What each arrival of each lane added to which GPU; the first lanes of all runs come first.
    where, added = np.zeros((2, count, lanes), dtype=np.int64)
    total = np.zeros(lanes)
    candidates = np.arange(len(worths))[:, None] * several
    for number in range(count):
        run, ended = runs.leaving[number]
        if len(run):
            lane = (candidates + run).reshape(-1)
            numbers = np.tile(ended, len(worths))
            np.subtract.at(flat, where[numbers, lane], added[numbers, lane])
        table = base + runs.kind[run_of, number] * CODES
        index = state + table[:, None]
        key = keys[index]
        gpu = key.argmin(axis=1)
        chosen = index[of_lane, gpu]
        fits = keys[chosen] != NEVER
        place = CODE[places[chosen]] * fits
        where[number], added[number] = of_lane * gpus + gpu, place
        flat[where[number]] += place
        total += runs.worth[run_of, number] * fits
    found: np.ndarray = total.reshape(len(worths), several).sum(axis=1)
    return found
