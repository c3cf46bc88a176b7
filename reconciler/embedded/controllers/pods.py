"""Pods that run: once ungated they reserve their claims, are bound where the allocation is, start and end."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from reconciler.embedded.api import ApiServer
from reconciler.embedded.builtin import CLAIM, NODE, POD
from reconciler.embedded.controllers.nodes import has_labels, matches
from reconciler.embedded.controllers.reading import (
    claim_names,
    is_deleting,
    is_finished,
    owner_pod,
    reserved_for,
    status,
)
from reconciler.embedded.kinds import Object
from reconciler.embedded.shelf import Change
from reconciler.embedded.timestamps import parse_timestamp, timestamp
from reconciler.embedded.validation.allocations import MAX_RESERVED

RUN_SECONDS = "dra-reconciler.io/run-seconds"
"""Annotation: how long the pod runs before it succeeds. Without it a pod runs until it is deleted."""


class Pods:
    """Stands in for scheduler and kubelet, for pods whose claims somebody else allocates."""

    subject = POD
    sources = (POD, CLAIM, NODE)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._waiting: dict[str, set[str]] = {}
        self._homeless: set[str] = set()
        self._alarms: dict[str, asyncio.TimerHandle] = {}

    def stop(self) -> None:
        """Let no pod end any more."""
        for alarm in self._alarms.values():
            alarm.cancel()

    def keys(self, change: Change) -> Iterable[str]:
        """The pod itself, or those that waited for a claim or a node."""
        if change.record.kind is POD:
            return [change.record.key]
        if change.record.kind is CLAIM:
            return self._waiting.pop(change.record.key, ())
        homeless, self._homeless = self._homeless, set()
        return homeless

    def settle(self, key: str) -> None:
        """Take a pod one step further."""
        record = self._api.store[POD].get(key)
        if record is None or is_deleting(record.object) or is_finished(record.object):
            return
        pod = record.object
        if status(pod).get("phase") == "Running":
            self._end_later(pod)
        elif not pod["spec"].get("schedulingGates"):
            self._start(pod, key)

    def _start(self, pod: Object, key: str) -> None:
        claims = self._claims(pod, key)
        if claims is None:
            return
        node = pod["spec"].get("nodeName") or self._node(pod, claims)
        if not node:
            self._homeless.add(key)
            return
        for claim in claims:
            self._reserve(claim, pod)
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            self._api.bind(namespace, name, node)
        self._write_status(pod, phase="Running", ready=True)

    def _claims(self, pod: Object, key: str) -> list[Object] | None:
        """The pod's claims, ready to be used; None after noting what the pod waits for."""
        found = []
        for name in claim_names(pod).values():
            if name is None:
                continue
            claim_key = f"{pod['metadata']['namespace']}/{name}"
            record = self._api.store[CLAIM].get(claim_key) if name else None
            if record is None or not _usable(record.object, pod):
                self._waiting.setdefault(claim_key, set()).add(key)
                return None
            found.append(record.object)
        return found

    def _node(self, pod: Object, claims: list[Object]) -> str:
        """The first node by name that every allocation and the pod itself accept."""
        selectors = [status(claim)["allocation"].get("nodeSelector") for claim in claims]
        for record in self._api.store[NODE].scan(""):
            node = record.object
            if (
                not node.get("spec", {}).get("unschedulable")
                and has_labels(pod["spec"].get("nodeSelector", {}), node)
                and all(matches(selector, node) for selector in selectors)
            ):
                return node["metadata"]["name"]
        return ""

    def _reserve(self, claim: Object, pod: Object) -> None:
        metadata = pod["metadata"]
        if _is_reserved(claim, pod):
            return
        entry = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}

        def reserved(shown: Object) -> Object:
            consumers = [*reserved_for(shown), entry]
            return {**shown, "status": {**status(shown), "reservedFor": consumers}}

        self._api.update(
            CLAIM, metadata["namespace"], claim["metadata"]["name"], reserved, subresource="status"
        )

    def _write_status(self, pod: Object, *, phase: str, ready: bool) -> None:
        moment = timestamp(self._api.now())
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": moment}
        containers = [
            {"name": container["name"], "image": container["image"], "ready": ready, "restartCount": 0}
            for container in pod["spec"]["containers"]
        ]

        def written(shown: Object) -> Object:
            before = status(shown)
            kept = [entry for entry in before.get("conditions", ()) if entry.get("type") != "Ready"]
            now = {"phase": phase, "conditions": [*kept, condition], "containerStatuses": containers}
            return {**shown, "status": {"startTime": moment, **before, **now}}

        metadata = pod["metadata"]
        self._api.update(POD, metadata["namespace"], metadata["name"], written, subresource="status")

    def _end_later(self, pod: Object) -> None:
        seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS, "")
        uid = pod["metadata"]["uid"]
        if not seconds.isdecimal() or uid in self._alarms:
            return
        started = parse_timestamp(status(pod).get("startTime") or pod["metadata"]["creationTimestamp"])
        left = (started + timedelta(seconds=int(seconds)) - self._api.now()).total_seconds()
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        loop = asyncio.get_running_loop()
        self._alarms[uid] = loop.call_later(max(left, 0.0), self._end, key, uid)

    def _end(self, key: str, uid: str) -> None:
        del self._alarms[uid]
        record = self._api.store[POD].get(key)
        if record is not None and record.object["metadata"]["uid"] == uid and not is_finished(record.object):
            self._write_status(record.object, phase="Succeeded", ready=False)


def _is_reserved(claim: Object, pod: Object) -> bool:
    return any(entry.get("uid") == pod["metadata"]["uid"] for entry in reserved_for(claim))


def _usable(claim: Object, pod: Object) -> bool:
    """Allocated, with room for one more consumer, and this pod's own where it was generated for a pod."""
    allocation = status(claim).get("allocation")
    # Without a timestamp the real scheduler cannot reserve the claim (SCHED-10); neither do we.
    if not allocation or "allocationTimestamp" not in allocation:
        return False
    owner = owner_pod(claim)
    if owner is not None and owner["uid"] != pod["metadata"]["uid"]:
        return False
    if _is_reserved(claim, pod):
        return True
    return not is_deleting(claim) and len(reserved_for(claim)) < MAX_RESERVED
