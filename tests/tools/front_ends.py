"""Every way to have manifests decided. Each tells, unit by unit, what became of it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cli import main
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.inputs import Answered, Outcome
from reconciler.control.offline import Answer, decide
from reconciler.operations.journal.replaying import Again, replay
from reconciler.operations.serving.questions import WhatifEndpoint, WhatifOptions
from reconciler.state.on_demand import NOT_LISTED
from tests.tools.placement_scenarios import Expected, Scenario
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.shared_clusters import SLOW
from tests.tools.small_fleet import Object
from tests.tools.unit_pictures import typed

SHELVES = {"Pod": POD, "ResourceClaim": CLAIM}


def read(objects: Iterable[Object]) -> Bundle:
    found = bundle(of_text("f.yaml", yaml.safe_dump_all(objects)))
    assert not found.refused
    return found


def verdict(node: str, devices: Iterable[str]) -> str:
    return f"{node}: {' '.join(devices)}"


# -- the live loop, and the replay of its journal


async def live(scenario: Scenario, folder: Path) -> Expected:
    """A reconciler on the embedded server; decisions that were made, then units that are blocked."""
    cluster = served(scenario.objects)
    granted = [said for said in scenario.expected.values() if ": " in said]
    given = folder / "demand.json"
    given.write_text(NO_DEMAND.to_json())  # else it is learnt, and what is decided depends on when
    flags: dict[str, Any] = {"policy": scenario.policy, "preferences": scenario.preferences, "demand": given}

    def is_blocked(one: Waits) -> bool:
        """Whether a unit gets nothing. Only the live loop waits for kinds that are listed on demand, and
        lets pods with devices wait until others are bound.
        """
        return one.reason != NOT_LISTED and ": " not in scenario.expected.get(_unit(one), "")

    async with reconciling(cluster, journal=str(folder), **flags, **SLOW) as seen:
        await seen.heard(Allocated, len(granted))
        await seen.heard(Waits, len(scenario.expected) - len(granted), counts=is_blocked)
        blocked = {_unit(one): one.reason for one in seen.of(Waits) if is_blocked(one)}
    found: list[Again] = []
    replay(folder, seen=found.append)
    return {**_told((again.then, again.then.outcome) for again in found), **blocked}


def again(folder: Path) -> tuple[Expected, int]:
    """What the journal's decisions are when they are made again, and how many differ."""
    found: list[Again] = []
    tally = replay(folder, seen=found.append)
    return _told((one.then, one.now) for one in found if one.now is not None), len(
        tally.different
    ) + tally.unknown


def served(objects: Iterable[Object]) -> Cluster:
    """A server with these objects, whose timestamps are as they are given: some have none."""
    cluster = Cluster([])
    for one in objects:
        cluster.load(one)
        if one["kind"] not in SHELVES:
            continue
        shelf, key = SHELVES[one["kind"]], _key(one)
        record = cluster.api.store[shelf].get(key)
        assert record is not None
        metadata = dict(record.object["metadata"])
        metadata.pop("creationTimestamp")
        metadata |= {name: said for name, said in one["metadata"].items() if name == "creationTimestamp"}
        cluster.api.store.put(shelf, key, {**record.object, "metadata": metadata})
    return cluster


def _key(one: Object) -> str:
    return f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}"


def _unit(waits: Waits) -> str:
    return f"pod {waits.pod.name}" if waits.pod is not None else f"claim {waits.claims[0].name}"


def _told(decisions: Iterable[tuple[Answered, Outcome]]) -> Expected:
    """The first decision about each unit, in the order in which they were made."""
    told: Expected = {}
    for then, one in decisions:
        devices = [text.rpartition("/")[2] for of_claim in one.devices for text in of_claim]
        told.setdefault(str(then.unit).replace("default/", ""), one.reason or verdict(one.node, devices))
    return told


# -- manifests


def allocated(scenario: Scenario) -> Expected:
    """`allocate`."""
    report = decide(read(scenario.objects), Semantics(), policies=scenario.policies)
    return dict(map(_answered, report.answers))


def _answered(answer: Answer) -> tuple[str, str]:
    unit = f"pod {answer.pod.name}" if answer.pod is not None else f"claim {answer.claims[0].name}"
    if not isinstance(answer.outcome, Granted):
        return unit, answer.reason
    results = [one for plan in answer.outcome.plans for one in plan.allocation.devices.results]
    return unit, verdict(answer.outcome.node, [one.device for one in results])


def explained(scenario: Scenario) -> Expected:
    """`explain -f`, unit by unit. It names the node, and no device."""
    return {unit: _explained(unit, scenario) for unit in scenario.of_files}


def _explained(unit: str, scenario: Scenario) -> str:
    kind, _, name = unit.partition(" ")
    options = [*(["--pod"] if kind == "pod" else []), *_policy(scenario)]
    told = run(["explain", name, *options, "-f", "-", "-o", "json"], scenario.objects)[0]
    if told.get("node"):
        return str(told["node"])
    return str(told.get("reason") or told["message"].partition(":")[0])


def supposed(scenario: Scenario, folder: Path) -> Expected:
    """`whatif -f`: each unit is asked about together with those before it that got devices."""
    rest = folder / "world.yaml"
    told: Expected = {}
    for unit, asked, world in _questions(scenario, scenario.of_files):
        rest.write_text(yaml.safe_dump_all(world))
        found = run(
            ["whatif", "-f", "-", "-f", str(rest), "--count", "1", "-o", "json", *_policy(scenario)], asked
        )
        told |= dict([_placed(unit, found)])
    return told


async def asked_of_the_port(scenario: Scenario) -> Expected:
    """`POST /whatif`, about the picture of a cluster."""
    told: Expected = {}
    for unit, asked, world in _questions(scenario, scenario.expected):
        state = world_of(map(typed, world), Semantics())
        ask = WhatifEndpoint(
            state.store, state.nodes, state.groups, ready=lambda: True, policies=lambda: scenario.policies
        ).ask
        found = await ask(yaml.safe_dump_all(asked), WhatifOptions(1, frozenset(), frozenset()))
        told |= dict([_placed(unit, found)])
    return told


def _questions(scenario: Scenario, expected: Expected) -> Iterator[tuple[str, list[Object], list[Object]]]:
    """Each unit; the objects of all that are asked about, last names first; and all other objects."""
    granted: list[str] = []
    waiting = [one for unit in expected for one in _parts(unit, scenario.objects)]
    world = [one for one in scenario.objects if one not in waiting]
    for unit, said in expected.items():
        if unit in scenario.apart:
            continue
        asked = [one for name in (*granted, unit) for one in _parts(name, scenario.objects)]
        yield unit, sorted(asked, key=lambda one: str(one["metadata"]["name"]), reverse=True), world
        granted += [unit] if ": " in said else []


def _parts(unit: str, objects: Iterable[Object]) -> list[Object]:
    """A pod with the claims it names, or a claim."""
    kind, _, name = unit.partition(" ")
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    if kind == "claim":
        return [by_name["ResourceClaim", name]]
    found = by_name["Pod", name]
    claims = [entry["resourceClaimName"] for entry in found["spec"]["resourceClaims"]]
    there = [by_name["ResourceClaim", one] for one in claims if ("ResourceClaim", one) in by_name]
    return [found, *there]


def _placed(unit: str, found: dict[str, Any]) -> tuple[str, str]:
    name = unit.replace(" ", " default/")
    for one in found["placed"]:
        if one["unit"] == name:
            return unit, verdict(one["node"], [device["device"] for device in one["devices"]])
    assert found["refused"]["unit"] == name
    return unit, found["refused"]["reason"]


def _policy(scenario: Scenario) -> list[str]:
    weighing = [] if scenario.preferences is None else [f"--preferences={scenario.preferences}"]
    return [*(f"--policy={one}" for one in scenario.policy), *weighing]


def run(arguments: list[str], objects: Iterable[Object]) -> Any:
    """What a command prints as JSON."""
    result = CliRunner().invoke(main, arguments, input=yaml.safe_dump_all(objects))
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)
