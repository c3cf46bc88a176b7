"""Learns what each place of a partition is worth to a load, by evolution.

The best weights keep most in use, and starve no profile: they lose a part of their score for each point by
which the acceptance of a profile falls too far below that of first fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Amounts, Rows
from perf.placement.loss_system import Arrival
from perf.placement.profiles import CODE, CODES, NEVER, PLACES, PROFILES, first_fit, preferences, worth
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
FLOOR = 0.04
"""How far the acceptance of a profile may be below that of first fit: a point less than the aim, since runs
differ"""


def learnt(loads: Sequence[Sequence[Arrival]], gpus: int, seed: int, progress: Progress) -> Amounts:
    """(P,) whole weights of the places; the heaviest is `HEAVIEST`. `loads` are the training runs."""
    random = np.random.default_rng(seed)
    runs = Runs.of(loads)
    keys, places = first_fit()
    base = play(keys[None], places[None], runs, gpus)
    best = np.array([float(PROFILES[place.profile].slots) for place in PLACES])
    most, sigma = float(_scores(best[None], base, runs, gpus)[0]), SIGMA
    for generation in range(GENERATIONS):
        noise = random.normal(size=(CANDIDATES, len(best)))
        tried = np.maximum(best + STEP * sigma * np.maximum(1, np.abs(best)) * noise, 0.01)
        found = _scores(tried, base, runs, gpus)
        if better := bool(found.max() > most):
            best, most = tried[found.argmax()], float(found.max())
        sigma *= WIDER if better else NARROWER
        progress(generation + 1, GENERATIONS)
    whole: Amounts = _whole(best[None])[0]
    return whole


def _scores(weights: np.ndarray, base: "Outcome", runs: "Runs", gpus: int) -> np.ndarray:
    """(W,) what is in use relative to first fit, less what the worst profile loses beyond `FLOOR`."""
    found = play(*preferences(worth(_whole(weights))), runs, gpus)
    lost = (base.accepted - found.accepted).max(axis=1)
    scores: np.ndarray = found.used / base.used - np.maximum(lost - FLOOR, 0)
    return scores


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What W ways to choose give over all runs."""

    used: np.ndarray
    """(W,) slices x time in use"""
    accepted: np.ndarray
    """(W, F) the part of the claims of each profile that fits, after the first fifth; 1 if there are none"""


def play(keys: Amounts, places: Amounts, runs: Runs, gpus: int) -> Outcome:
    """Play all runs in each way (W, F, S) to choose the state of a GPU, and the place; see `preferences`."""
    ways, (several, count) = len(keys), runs.kind.shape
    profiles = len(PROFILES)
    keys, places = keys.reshape(-1), places.reshape(-1)
    lanes = ways * several
    of_lane = np.arange(lanes)
    base = (of_lane // several) * profiles * CODES
    run_of = of_lane % several
    state = np.zeros((lanes, gpus), dtype=np.int64)
    flat = state.reshape(-1)
    # What each arrival of each lane added to which GPU; the first lanes of all runs come first.
    where, added = np.zeros((2, count, lanes), dtype=np.int64)
    total = np.zeros(lanes)
    asked, accepted = np.zeros((2, lanes, profiles), dtype=np.int64)
    first = np.arange(ways)[:, None] * several
    for number in range(count):
        run, ended = runs.leaving[number]
        if len(run):
            lane = (first + run).reshape(-1)
            numbers = np.tile(ended, ways)
            np.subtract.at(flat, where[numbers, lane], added[numbers, lane])
        kind = runs.kind[run_of, number]
        index = state + (base + kind * CODES)[:, None]
        gpu = keys[index].argmin(axis=1)
        chosen = index[of_lane, gpu]
        fits = keys[chosen] != NEVER
        place = CODE[places[chosen]] * fits
        where[number], added[number] = of_lane * gpus + gpu, place
        flat[where[number]] += place
        total += runs.worth[run_of, number] * fits
        if number >= count // 5:
            asked[of_lane, kind] += 1
            accepted[of_lane, kind] += fits
    asked, accepted = (of.reshape(ways, several, profiles).sum(axis=1) for of in (asked, accepted))
    part = np.where(asked > 0, accepted / np.maximum(asked, 1), 1.0)
    return Outcome(total.reshape(ways, several).sum(axis=1), part)
