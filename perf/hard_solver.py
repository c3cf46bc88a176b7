"""Answers hard questions by CP-SAT with one worker: the twin of the search, and its measure.

OR-Tools is of the extra `solver`. It is imported when the first question is asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import process_time
from typing import Any

import click

from perf.fleets.hard import DRIVER, LARGEST, Question
from perf.fleets.objects import Json

SECONDS = 60.0
"""Longest time for one node"""
Key = tuple[str, str]


def solve(asked: Question) -> tuple[bool | None, float]:
    """Whether devices exist on some node, and the seconds of building models and solving them.

    None if that takes too long. Raises UsageError without OR-Tools.
    """
    try:
        from ortools.sat.python import cp_model  # noqa: PLC0415 - of an extra, and slow to import
    except ImportError:
        raise click.UsageError("--solver needs OR-Tools: pip install 'dra-reconciler[solver]'") from None
    answers, seconds = set(), 0.0
    for name in [one["metadata"]["name"] for one in asked.fleet if one["kind"] == "Node"]:
        devices, left = _on_node(asked, name)
        began = process_time()
        model = _model(cp_model, devices, left, asked.claims)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = SECONDS
        status = solver.Solve(model)
        seconds += process_time() - began
        found = {cp_model.OPTIMAL: True, cp_model.FEASIBLE: True, cp_model.INFEASIBLE: False}.get(status)
        answers.add(found)
        if found:
            break
    return True if True in answers else None if None in answers else False, seconds


def _on_node(asked: Question, name: str) -> tuple[list[Json], dict[Key, int]]:
    """The devices of a node that nobody holds, and what is left of its counters."""
    specs = [one["spec"] for one in asked.fleet if one["kind"] == "ResourceSlice"]
    here = [spec for spec in specs if spec["nodeName"] == name]
    sets = [one for spec in here for one in spec.get("sharedCounters", [])]
    left = {(one["name"], key): int(value["value"]) for one in sets for key, value in one["counters"].items()}
    results = [one["status"]["allocation"]["devices"]["results"][0] for one in asked.held]
    held = {result["device"] for result in results if result["pool"] == name}
    devices = [one for spec in here for one in spec.get("devices", [])]
    for device in devices:
        if device["name"] in held:
            for key, amount in _draws(device):
                left[key] -= amount
    return [device for device in devices if device["name"] not in held], left


def _draws(device: Json) -> Iterable[tuple[Key, int]]:
    for draw in device["consumesCounters"]:
        for key, value in draw["counters"].items():
            yield (draw["counterSet"], key), int(value["value"])


def _options(request: Json) -> Sequence[tuple[str, int]]:
    """The alternatives of a request: profile, count."""
    many = request.get("firstAvailable") or [request["exactly"]]
    return [(one["selectors"][0]["cel"]["expression"].split('"')[-2], one["count"]) for one in many]


def _model(cp_model: Any, devices: Sequence[Json], left: Mapping[Key, int], claims: Sequence[Json]) -> Any:
    model = cp_model.CpModel()
    users: dict[int, list[Any]] = {}
    for claim in claims:
        spec = claim["spec"]["devices"]
        mine: dict[str, list[tuple[int, Any]]] = {}
        total = []
        for request in spec["requests"]:
            chosen = []
            for profile, count in _options(request):
                taken = model.NewBoolVar("")
                fitting = [
                    (at, model.NewBoolVar(""))
                    for at, device in enumerate(devices)
                    if device["attributes"]["profile"]["string"] == profile
                ]
                model.Add(sum([use for _, use in fitting]) == count * taken)
                chosen.append(taken)
                total.append(count * taken)
                mine.setdefault(request["name"], []).extend(fitting)
                for at, use in fitting:
                    users.setdefault(at, []).append(use)
            model.Add(sum(chosen) == 1)
        model.Add(sum(total) <= LARGEST)
        for constraint in spec["constraints"]:
            _constrain(model, devices, constraint, mine)
    for uses in users.values():
        model.Add(sum(uses) <= 1)
    drawn: dict[Key, list[Any]] = {}
    for at, uses in users.items():
        for key, amount in _draws(devices[at]):
            drawn.setdefault(key, []).extend(amount * use for use in uses)
    for key, terms in drawn.items():
        model.Add(sum(terms) <= left[key])
    return model


def _constrain(
    model: Any, devices: Sequence[Json], constraint: Json, mine: Mapping[str, Sequence[tuple[int, Any]]]
) -> None:
    attribute = (constraint.get("matchAttribute") or constraint["distinctAttribute"]).removeprefix(
        f"{DRIVER}/"
    )
    by_value: dict[int, list[Any]] = {}
    for request in constraint["requests"]:
        for at, use in mine[request]:
            by_value.setdefault(devices[at]["attributes"][attribute]["int"], []).append(use)
    if "distinctAttribute" in constraint:
        for uses in by_value.values():
            model.Add(sum(uses) <= 1)
        return
    values = {value: model.NewBoolVar("") for value in by_value}
    model.Add(sum(values.values()) == 1)
    for value, uses in by_value.items():
        for use in uses:
            model.AddImplication(use, values[value])
