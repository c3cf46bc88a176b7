"""A fleet of manifests, and the questions that a program can ask about it."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import reconciler.plugins  # noqa: F401 - registers them
from reconciler.allocation import explanation
from reconciler.allocation.dra.budget import STEPS
from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.allocation.policies.names import FIRST_FIT
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.analysis.capacity.lines import Gauge, Line
from reconciler.analysis.capacity.measure import Solver
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import question_in
from reconciler.analysis.manifest_world import fleet_of_manifests, world_of_manifests
from reconciler.analysis.sizing.demand import items_in
from reconciler.analysis.sizing.shapes import distinct_shapes, shape_of
from reconciler.analysis.sizing.sizing import size
from reconciler.analysis.whatif import simulation
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.question import Scenario, units_in
from reconciler.api.manifests.bundle import Bundle, bundle, unknown_parts
from reconciler.api.manifests.documents import Document, InvalidDocument, documents, of_text
from reconciler.api.manifests.inferred_nodes import bundle_objects, infer_nodes
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics, lacking, with_gates
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.slices import ResourceSlice
from reconciler.cel.refusals import REFUSES
from reconciler.control.demand import read_demand_file
from reconciler.control.offline import Report, decide
from reconciler.errors import Rejected
from reconciler.library import results
from reconciler.library.explaining import in_manifests
from reconciler.library.results import Manifest, Rows
from reconciler.state.trial import store_of

Objects = Manifest | Iterable["Objects"]
"""Objects as dicts: one, or several in lists, tuples or generators of any depth"""
Policy = str | Mapping[str, str]
"""The name of a placement policy; or one for each driver or `class:NAME`, and `*` for all others"""
Release = Literal["1.36", "1.37"]
By = Literal["driver", "pool", "node"]
T = TypeVar("T")
_OPTIONS = {"koordinator_semantics": "proposal"}
_EFFORT = 200_000
"""Choices that a measurement examines, as in `top`"""


class Fleet:
    """Slices, classes, nodes, claims and pods. It never changes: each method gives something new.

    Invalid objects are left out, with a warning; `problems` names them.
    """

    def __init__(self, *objects: Objects, release: Release = "1.37", feature_gates: str = "") -> None:
        """A fleet of objects as dicts. `feature_gates` is such as `A=true,B=false`. Raises Rejected."""
        gates = with_gates(feature_gates, lacking=lacking(release))
        self._rules = Semantics(_one_of(Release, "release", release), gates)
        self._bundle = self._read(_documents(objects))

    @classmethod
    def load(cls, *paths: str | Path, release: Release = "1.37", feature_gates: str = "") -> "Fleet":
        """A fleet of manifests: YAML or JSON files, and directories of them. Raises FileNotFoundError."""
        for path in paths:
            Path(path).stat()
        made = cls(release=release, feature_gates=feature_gates)
        made._bundle = made._read(documents(map(str, paths), BytesIO()))
        return made

    def add(self, *objects: Objects) -> "Fleet":
        """A fleet with more objects. One with the kind and name of an earlier one takes its place."""
        return self._with(self._read(_documents(objects)))

    def _read(self, found: Iterable[Document | InvalidDocument]) -> Bundle:
        read = bundle(found, REFUSES, self._rules)
        for problem in _problems(read):
            warnings.warn(problem, stacklevel=3)
        return read

    def _with(self, new: Bundle) -> "Fleet":
        made, old = Fleet(), self._bundle
        kinds = old.entries.keys() | new.entries.keys()
        made._rules = self._rules
        made._bundle = Bundle(
            {kind: {**old.entries.get(kind, {}), **new.entries.get(kind, {})} for kind in kinds},
            (*old.refused, *new.refused),
            dict(enumerate([*old.others.values(), *new.others.values()])),
        )
        return made

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with objects that were left out, and fields and kinds that no release has."""
        return tuple(_problems(self._bundle))

    def allocate(
        self,
        policy: Policy = FIRST_FIT,
        *,
        demand: str | Path | None = None,
        seed: int = 0,
        steps: int = STEPS,
    ) -> results.Allocation:
        """Allocate all pending claims: pods of high priority first, then in order of creation and name.

        `demand` is a file with the demand that some policies keep room for, `seed` that of their random
        numbers, `steps` how many devices are tried for one decision and node.
        """
        report = decide(self._bundle, self._rules, steps=steps, policies=_policies(policy, demand, seed))
        claims = tuple(report.allocated(datetime.now(UTC)))
        after = self._with(bundle(_documents(claims), rules=self._rules))
        waiting = [
            results.Pending(tuple(map(str, one.claims)), _text(one.pod), one.reason, one.message)
            for one in report.waiting
        ]
        return results.Allocation(
            Rows(results.Grant, _grants(report)), Rows(results.Pending, waiting), claims, after
        )

    def explain(
        self, name: str, *, pod: bool = False, policy: Policy = FIRST_FIT, steps: int = STEPS
    ) -> results.Explanation:
        """Why a claim, or all claims of a pod, can or cannot be allocated once those before it are.

        `name` is `NAME` or `NAMESPACE/NAME`. Raises Rejected if nothing has this name.
        """
        found = in_manifests(
            self._bundle,
            self._rules,
            ObjectKey.parse(name),
            of_pod=pod,
            steps=steps,
            policies=_policies(policy, None, 0),
            options=_OPTIONS,
        )
        if not found.known:
            raise Rejected(found.message)
        made = [*found.explanations, *(question.explained(steps) for question in found.questions)]
        if not made:
            message = found.message.removeprefix(f"{found.reason}: ")
            return results.Explanation(
                found.allocated, False, "", found.reason, message, "", Rows(results.Gate), (), ()
            )
        return _explanation(next((one for one in made if one.allocatable), made[0]))

    def what_if(
        self,
        *objects: Objects,
        count: int | None = None,
        without: Iterable[str] = (),
        drain: Iterable[str] = (),
        policy: Policy = FIRST_FIT,
        steps: int = STEPS,
    ) -> results.WhatIf:
        """Whether claims, templates and pods would fit, how often, and which claims are lost.

        Without `count`, as many copies are placed as fit, at most 1,000. `without` are claims that shall hold
        nothing, `drain` nodes that shall be gone. Pending claims of the fleet do not count. Raises Rejected.
        """
        asked = _question(objects, self._rules)
        units = units_in(asked, self._rules, of_plugins=True)
        fleet = fleet_of_manifests(asked, self._bundle, bundle(()), units)
        question = Scenario(units, count, frozenset(map(ObjectKey.parse, without)), frozenset(drain))
        found = answer(
            question,
            fleet.world(self._rules),
            machines=fleet.machines,
            options=_OPTIONS,
            steps=steps,
            policies=_policies(policy, None, 0),
        )
        refused = found.refused
        return results.WhatIf(
            found.fits,
            found.copies,
            str(found.limit),
            str(refused.reason) if refused is not None else "",
            refused.message if refused is not None else "",
            Rows(results.Placed, [row for one in found.placed for row in _placed(one)]),
            Rows(results.Lost, map(_lost, found.lost)),
        )

    def fit(self, *request: Objects, steps: int = STEPS) -> Rows[results.PodSet]:
        """How many pods of some sets fit together, for a FitRequest and the templates that it names.

        Raises Rejected.
        """
        question = question_in(_question(request, self._rules))
        with world_of_manifests(self._bundle, self._rules).trial() as trial:
            found = fit(question, trial, steps=steps)
        return Rows(
            results.PodSet,
            (
                results.PodSet(
                    one.name,
                    one.count,
                    one.fits,
                    tuple(seat.node for seat in one.seats),
                    str(one.short.reason) if one.short is not None else "",
                    one.short.message if one.short is not None else "",
                )
                for one in found.sets
            ),
        )

    def nodes_for(self, *demand: Objects, shapes: Iterable[str] = (), steps: int = STEPS) -> results.Sizing:
        """How many nodes a demand needs beside the fleet: Demand documents, or claims, templates and pods.

        `shapes` are nodes of the fleet to add more of; without them one of each kind. Raises Rejected.
        """
        asked = _question(demand, self._rules)
        slices = self._bundle.of(ResourceSlice)
        nodes = {one.key.name: one for one in infer_nodes(self._bundle.of(Node), slices).nodes}
        chosen = list(distinct_shapes([*nodes.values()], slices))
        if named := [*shapes]:
            if missing := next((name for name in named if name not in nodes), ""):
                raise Rejected(f"there is no node {missing}{instead(missing, sorted(nodes), 'nodes')}")
            chosen = [shape_of(nodes[name], slices) for name in named]
        found = size(
            items_in(asked, self._rules), chosen, world_of_manifests(self._bundle, self._rules), steps=steps
        )
        return results.Sizing(
            found.fits_now,
            found.answered,
            Rows(
                results.Item,
                (
                    results.Item(
                        one.item.name,
                        one.item.count,
                        one.placed,
                        one.refused.message if one.refused is not None else "",
                        one.served_by,
                    )
                    for one in found.items
                ),
            ),
            Rows(
                results.Option,
                (results.Option(one.nodes, float(one.cost), float(one.at_least)) for one in found.options),
            ),
        )

    def usage(self, by: By = "driver") -> Rows[results.Usage]:
        """How full the fleet is with what is allocated in it, for each driver, pool or node."""
        return Rows(
            results.Usage,
            (
                results.Usage(**{name: getattr(one, name) for name in results.Usage.__dataclass_fields__})
                for one in self._lines(by)
            ),
        )

    def profiles(self, by: By = "driver") -> Rows[results.Profile]:
        """How many devices of each kind there are, are held and still fit; the largest first."""
        return Rows(
            results.Profile,
            (
                results.Profile(
                    line.driver, line.pool, line.node, one.profile, one.devices, one.held, one.fits, one.size
                )
                for line in self._lines(by)
                for one in line.profiles
            ),
        )

    def _lines(self, by: By) -> list[Line]:
        _one_of(By, "part", by)
        snapshot = store_of(bundle_objects(self._bundle), self._rules).snapshot()
        return Gauge(Solver(effort=_EFFORT)).lines(snapshot, by)


def _documents(objects: Iterable[Objects]) -> Iterator[Document | InvalidDocument]:
    """The objects, as if each was a file of JSON: nothing that a caller changes later reaches them."""
    for number, one in enumerate(_flat(objects)):
        yield from of_text(f"<object {number}>", json.dumps(one))


def _flat(objects: Iterable[Objects]) -> Iterator[Manifest]:
    for one in objects:
        if isinstance(one, Mapping):
            yield one
        elif isinstance(one, str | Path):
            raise Rejected(f"{str(one)[:100]!r} is not an object; Fleet.load reads files")
        else:
            yield from _flat(one)


def _problems(found: Bundle) -> Iterator[str]:
    yield from (str(one.problem) for one in (*found.refused, *unknown_parts(found)))


def _question(objects: Iterable[Objects], rules: Semantics) -> Bundle:
    """The objects of a question. Raises Rejected if one is invalid: it would be another question."""
    found = bundle(_documents(objects), REFUSES, rules)
    if problem := next(_problems(found), ""):
        raise Rejected(problem)
    return found


def _policies(policy: Policy, demand: str | Path | None, seed: int) -> Policies:
    texts = [policy] if isinstance(policy, str) else [f"{target}={name}" for target, name in policy.items()]
    keeping = NO_DEMAND if demand is None else read_demand_file(Path(demand)).demand
    return Policies(parse_policies(texts), keeping, seed)


def _one_of(known: Any, what: str, given: T) -> T:
    if given not in get_args(known):
        raise Rejected(f"there is no {what} {given!r}; known: {', '.join(get_args(known))}")
    return given


def _text(key: ObjectKey | None) -> str:
    return "" if key is None else str(key)


def _grants(report: Report) -> Iterator[results.Grant]:
    for one in report.answers:
        for plan in one.outcome.plans if isinstance(one.outcome, Granted) else ():
            for device in plan.allocation.devices.results:
                yield results.Grant(str(plan.claim), device.request, *device.id, plan.node, _text(one.pod))


def _explanation(found: explanation.Explanation) -> results.Explanation:
    gates = (
        results.Gate(str(one.claim), one.request, str(step.kind), step.about, step.left, step.detail)
        for one in found.requests
        for step in one.funnel
    )
    return results.Explanation(
        False,
        found.allocatable,
        found.node,
        found.reason,
        found.message,
        found.remedy,
        Rows(results.Gate, gates),
        tuple(f"request {one.request}: {words}" for one in found.requests for words in one.sentences()),
        tuple(map(str, found.nearest)),
    )


def _placed(one: simulation.Placed) -> Iterator[results.Placed]:
    for claim, request, device in one.devices:
        yield results.Placed(one.copy, one.unit, str(claim), request, *device, one.node)


def _lost(one: simulation.Lost) -> results.Lost:
    claims, pod = tuple(map(str, one.claims)), _text(one.pod)
    if isinstance(one.elsewhere, simulation.Placed):
        return results.Lost(claims, pod, one.elsewhere.node, "", "")
    return results.Lost(claims, pod, "", str(one.elsewhere.reason), one.elsewhere.message)
