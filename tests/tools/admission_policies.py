"""Admission policies evaluated as the API server does, by our own evaluator of its expressions.

It is no API server: types are not checked against schemas, costs are not counted, and of a mutation only what
these policies need is applied.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.claims import ANNOUNCED
from reconciler.api.validation.served_kinds import CLAIM
from reconciler.cel.check import Environment, check
from reconciler.cel.errors import CelError
from reconciler.cel.evaluate import Emitter
from reconciler.cel.evaluation import Frame
from reconciler.cel.reading import read
from reconciler.cel.reads import inline
from reconciler.cel.types import BOOL, DYN
from reconciler.cel.values import DeviceView
from reconciler.embedded import ApiServer
from reconciler.embedded.routing import Target
from tests.tools.deployed_rights import documents

NAMES = ("object", "oldObject", "request", "namespaceObject", "variables")
_CONSTRUCTED = re.compile(r"\b(?:Object(?:\.[A-Za-z]+)*|JSONPatch)\{")
_PATCHED = re.compile(r"\bvalue: (\[\]|Object(?:\.[A-Za-z]+)*\{[^{}]*\})")
_LISTED = re.compile(r"\bfinalizers: (\[[^\[\]]*\])")
_FIELD = re.compile(r"([{,]\s*)([A-Za-z]+):")
Object = dict[str, Any]


@dataclass(frozen=True)
class Review:
    """One request as admission sees it."""

    operation: str = "UPDATE"
    old: Object | None = None
    new: Object | None = None
    resource: str = "resourceclaims"
    subresource: str = ""
    user: str = "system:serviceaccount:dra-reconciler:dra-reconciler"
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the namespace"""

    def variables(self) -> dict[str, Any]:
        request = {"operation": self.operation, "userInfo": {"username": self.user}}
        if self.subresource:
            request["subResource"] = self.subresource
        return {
            "object": _value(self.new),
            "oldObject": _value(self.old),
            "request": request,
            "namespaceObject": {"metadata": {"name": "n", "labels": dict(self.labels)}},
            "variables": {},
        }


class Policy:
    """One policy, compiled."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.name = document["metadata"]["name"]
        self.spec = document["spec"]

    def matches(self, review: Review) -> bool:
        """Whether the policy is asked at all."""
        constraints = self.spec["matchConstraints"]
        wanted = constraints.get("namespaceSelector", {}).get("matchLabels", {})
        if not wanted.items() <= dict(review.labels).items():
            return False
        if not any(_covers(rule, review) for rule in constraints["resourceRules"]):
            return False
        conditions = (one["expression"] for one in self.spec.get("matchConditions", ()))
        return all(_evaluated(text, review.variables()) is True for text in conditions)

    def refusals(self, review: Review) -> list[str]:
        """Why a request is denied; nothing if it is not. An error denies, as failurePolicy says."""
        if not self.matches(review):
            return []
        variables = self._variables(review)
        return [
            one["message"] for one in self.spec["validations"] if not _holds(one["expression"], variables)
        ]

    def _variables(self, review: Review) -> dict[str, Any]:
        variables = review.variables()
        for one in self.spec.get("variables", ()):
            try:
                variables["variables"][one["name"]] = _evaluated(one["expression"], variables)
            except CelError:
                continue  # an error where it is used, and only there
        return variables

    def mutated(self, review: Review) -> Object:
        """The object that is created. Lists of named items are merged by name, those of texts as sets."""
        assert review.new is not None
        new = deepcopy(review.new)
        if self.matches(review):
            for one in self.spec["mutations"]:
                if one["patchType"] == "JSONPatch":
                    expression = _as_maps(one["jsonPatch"]["expression"])
                    for step in _evaluated(expression, self._variables(review)):
                        _patch(new, step)
                else:
                    expression = _as_maps(one["applyConfiguration"]["expression"])
                    _merge(new, _evaluated(expression, self._variables(review)))
        return new


def expressions(document: Mapping[str, Any]) -> Iterable[str]:
    """Every expression of a policy."""
    spec = document["spec"]
    for part in ("matchConditions", "variables", "validations"):
        yield from (one["expression"] for one in spec.get(part, ()))
    for one in spec.get("mutations", ()):
        yield _as_maps((one.get("applyConfiguration") or one["jsonPatch"])["expression"])


@cache
def compiled(expression: str) -> tuple[Any, int]:
    """What evaluates an expression, and how many places it needs. Raises CelRefused."""
    environment = Environment(tuple((name, DYN) for name in NAMES), results=(BOOL, DYN))
    checked = check(inline(read(f"dyn({expression})")), environment)  # variables are not only yes and no
    emitter = Emitter(checked)
    slots = {name: emitter.slot() for name in NAMES}
    return emitter.emit(checked.root, slots), emitter.names


def _evaluated(expression: str, variables: Mapping[str, Any]) -> Any:
    run, names = compiled(expression)
    frame = Frame(DeviceView(driver=""), names, 10**6)
    for place, name in enumerate(NAMES):
        frame.slots[place] = variables[name]
    return run(frame)


def _holds(expression: str, variables: Mapping[str, Any]) -> bool:
    try:
        return _evaluated(expression, variables) is True
    except CelError:
        return False


def _covers(rule: Mapping[str, Any], review: Review) -> bool:
    name = review.resource + (f"/{review.subresource}" if review.subresource else "")
    part = f"{review.resource}/*" if review.subresource else name
    return review.operation in rule["operations"] and bool({name, part} & set(rule["resources"]))


def _as_maps(expression: str) -> str:
    """Objects are constructed by the name of their type, which our dialect lacks; maps do as well.

    The values of a map have one type, so that what a patch adds has to be dynamic, and a list beside a map.
    """
    expression = _PATCHED.sub(r"value: dyn(\1)", expression)
    expression = _LISTED.sub(r"finalizers: dyn(\1)", expression)
    return _FIELD.sub(r'\1"\2":', _CONSTRUCTED.sub("{", expression))


def _value(raw: Any) -> Any:
    """JSON as the evaluator has it: lists are tuples."""
    if isinstance(raw, dict):
        return {key: _value(value) for key, value in raw.items()}
    return tuple(map(_value, raw)) if isinstance(raw, list | tuple) else raw


def _patch(into: Object, step: Mapping[str, Any]) -> None:
    """One operation of a JSON patch: what our policies use of it, adding and removing."""
    *outer, last = [part.replace("~1", "/") for part in step["path"].split("/")[1:]]
    node: Any = into
    for part in outer:
        node = node[int(part)] if isinstance(node, list) else node[part]
    if step["op"] == "remove":
        del node[last]
    elif last == "-":
        node.append(dict(step["value"]))
    else:
        node[last] = list(step["value"])


def _name(item: Any) -> str:
    """By what an item of a list is merged: its name, or itself in a set of texts."""
    return item if isinstance(item, str) else item["name"]


def _merge(into: Object, applied: Mapping[str, Any]) -> None:
    for key, value in applied.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        elif isinstance(value, tuple):
            items = into.setdefault(key, [])
            there = [_name(item) for item in items]
            items += [deepcopy(item) for item in value if _name(item) not in there]
        else:
            into[key] = value


# -- Specs of pods that ask for extended resources, for properties.


RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "example.com/unknown", "cpu")
Json = dict[str, Any]


def _containers(prefix: str, refused: bool, **more: Any) -> st.SearchStrategy[list[Json]]:
    counts = st.integers(-2 if refused else 0, 4).map(str)
    amounts = st.dictionaries(st.sampled_from(RESOURCES), counts, max_size=3)
    uneven = {"requests": amounts} if refused else {}
    one = st.fixed_dictionaries({"image": st.just("i")}, optional={"limits": amounts, **uneven, **more})

    def finished(found: list[Json]) -> list[Json]:
        for number, made in enumerate(found):
            made["name"] = f"{prefix}{number}"
            limits, requests = made.pop("limits", None), made.pop("requests", {})
            if limits is not None or requests:  # as the API server completes it
                made["resources"] = {"limits": limits or {}, "requests": {**(limits or {}), **requests}}
        return found

    return st.lists(one, min_size=prefix == "m", max_size=3).map(finished)


def pod_specs(*, refused: bool = False, **optional: Any) -> st.SearchStrategy[Json]:
    """Specs with main and init containers, sidecars among these; `optional` are more fields.

    `refused`: also such that the API server refuses: negative, without a limit, or not equal to it.
    """

    def joined(mains: list[Json], inits: list[Json], more: Json) -> Json:
        return {**({"initContainers": inits} if inits else {}), "containers": mains, **more}

    gates, claims = [{"name": "example.com/other"}], [{"name": "old", "resourceClaimName": "x"}]
    present = {"schedulingGates": st.just(gates), "resourceClaims": st.just(claims)}
    more = st.fixed_dictionaries({}, optional={**present, **optional})
    inits = _containers("i", refused, restartPolicy=st.just("Always"))
    return st.builds(joined, _containers("m", refused), inits, more)


def without_refused(spec: Json) -> tuple[Json, list[tuple[str, str, Any, Any]]]:
    """A spec without the extended resources that the API server refuses, and these.

    Each as container, resource, limit and request: a limit is missing, negative or not equal to the request.
    """

    def is_refused(limit: str | None, request: str | None) -> bool:
        return limit != request or (limit is not None and int(limit) < 0)

    def found(container: Json) -> Iterator[tuple[str, str, Any, Any]]:
        amounts = container.get("resources") or {}
        limits, requests = amounts.get("limits") or {}, amounts.get("requests") or {}
        extended = [name for name in RESOURCES if "/" in name]
        for name in [name for name in extended if is_refused(limits.get(name), requests.get(name))]:
            yield container["name"], name, limits.pop(name, None), requests.pop(name, None)

    left = deepcopy(spec)
    return left, [
        one for part in (*left.get("initContainers", ()), *left["containers"]) for one in found(part)
    ]


def comparable(spec: Json) -> Any:
    """What rewriting changes, without the order of claims, and without maps that are empty or missing."""

    def parts(one: Json) -> Any:
        found = one.get("resources") or {}
        claims = sorted(claim["name"] for claim in found.get("claims", ()))
        return one["name"], found.get("limits") or {}, found.get("requests") or {}, claims

    return (
        [parts(one) for one in (*spec.get("initContainers", ()), *spec["containers"])],
        sorted(map(str, spec.get("resourceClaims", ()))),
        spec.get("schedulingGates"),
    )


# -- A server on which the admission policy that announces claims is in force, most of the time.


LABELS = {"dra-reconciler.io/announce-claims": "true"}
NAME = "dra-reconciler-announce-claims"
IN_FORCE = 0.8
"""Probability that a claim is announced: policies and labels come and go"""


def policy() -> Policy:
    """The policy as it is deployed."""
    (found,) = (
        one
        for one in documents("admission")
        if one["kind"] == "MutatingAdmissionPolicy" and one["metadata"]["name"] == NAME
    )
    return Policy(found)


def announce(api: ApiServer, random: Random, in_force: float = IN_FORCE) -> None:
    """Let claims be announced as they are created, whoever creates them."""
    announcing = policy()

    def admit(target: Target, new: Object | None, old: Object | None) -> None:
        if target.kind is CLAIM and new is not None and old is None and random.random() < in_force:
            new.update(announcing.mutated(Review("CREATE", new=new, labels=LABELS)))

    api.writer.admit = admit


def announced(claim: Any) -> Any:
    """A claim as the policy makes it."""
    made = policy().mutated(Review("CREATE", new=claim, labels=LABELS))
    assert ANNOUNCED in made["metadata"]["annotations"].values()
    return made
