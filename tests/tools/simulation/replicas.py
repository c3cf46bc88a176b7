"""Controllers that replace their pods, and the judge of moves: of whom, one at a time, to a held place."""

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from reconciler.api.validation.served_kinds import POD
from reconciler.control.relocation.moves import MOVABLE
from reconciler.embedded import ApiServer
from reconciler.state.nominations import Nominee, NomineeKind
from tests.tools.simulation.fleet import Object

MOST_MOVED = 1
"""The highest priority of pods that may be moved"""
SETS = tuple(f"s{number}" for number in range(12))
"""Names and uids of ReplicaSets"""


class Replicas:
    """Makes a new pod as soon as one of theirs leaves."""

    def __init__(self, api: ApiServer, random: Random) -> None:
        self._api = api
        self._random = random
        self._kept: dict[str, Object] = {}
        """Pods as they were made, by name"""
        self._made = 0

    def adopted(self, pod: Object) -> Object:
        """The same pod, with a controller or without; most of the former may be moved."""
        if self._random.random() < 0.2:
            return pod
        name = self._random.choice(SETS)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
        labels = dict(pod["metadata"].get("labels", {}))
        if self._random.random() < 0.8:
            labels[MOVABLE] = "true"
        made = {**pod, "metadata": {**pod["metadata"], "labels": labels, "ownerReferences": [owner]}}
        self._kept[pod["metadata"]["name"]] = deepcopy(made)
        return made

    def look(self) -> None:
        """Replace pods that leave."""
        for name, made in list(self._kept.items()):
            record = self._api.store[POD].get(f"default/{name}")
            if record is None or "deletionTimestamp" in record.object["metadata"]:
                del self._kept[name]
                self._made += 1
                again = deepcopy(made)
                again["metadata"]["name"] = f"r{self._made}"
                self._kept[again["metadata"]["name"]] = deepcopy(again)
                self._api.load([again])

    def thin(self) -> None:
        """Scale down to what runs, and then at random, so that what is left is scattered."""
        for pod in [record.object for record in self._api.store[POD].scan("")]:
            name = pod["metadata"]["name"]
            waits = bool(pod["spec"].get("schedulingGates"))
            if waits or name not in self._kept or self._random.random() < 0.5:
                self._kept.pop(name, None)
                self._api.delete(POD, "default", name)

    def end(self) -> None:
        """Replace nothing any more."""
        self._kept.clear()


def problems_of_move(victim: Any, held: frozenset[Nominee], leaving: frozenset[str]) -> Iterator[str]:
    """What is wrong with the eviction of a pod, if it is to move it.

    `held` are those for whom room is held, `leaving` the uids of pods that were evicted to move them before,
    and whose replacements do not run yet.
    """
    if victim["metadata"].get("labels", {}).get(MOVABLE) != "true":
        yield "it may not be moved"
    if int(victim["spec"].get("priority") or 0) > MOST_MOVED:
        yield "its priority is too high to be moved"
    if not any(owns(nominee, victim) for nominee in held):
        yield "no place is held for what replaces it"
    if leaving:
        yield f"{sorted(leaving)} move at the same time"


def owns(nominee: Nominee, pod: Any) -> bool:
    """Whether room is held for the next pod of the controller of a pod."""
    owners = pod["metadata"].get("ownerReferences", ())
    uids = {owner["uid"] for owner in owners if owner.get("controller")}
    return nominee.kind is NomineeKind.REPLACEMENT and nominee.source.rpartition(" ")[2] in uids
