"""Controllers that run pods and report nodes as ready: in place of scheduler and kubelets.

A pod that is ungated gets its claims reserved, is bound to a node of their allocations (NM-2), starts
and ends. For extended resources that classes serve, a claim is made and allocated first (EXT-4).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import cast

from reconciler.api.migrate.special_claims import request_mappings, served_by_classes
from reconciler.api.objects.core import Pod
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.validation.claims import MAX_RESERVED
from reconciler.api.validation.fields import parse_timestamp, timestamp
from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.api.validation.served_kinds import CLAIM, DEVICE_CLASS, NODE, POD, SLICE, TAINT_RULE
from reconciler.api.versions.reading import typed
from reconciler.embedded.api import ApiServer
from reconciler.embedded.bodies import with_condition
from reconciler.embedded.claim_controllers import (
    GROUP,
    SPECIAL,
    claim_names,
    group_name,
    group_of,
    is_deleting,
    is_finished,
    is_of_group,
    owner_of,
    reserved_for,
    status,
    update_status,
)
from reconciler.embedded.pod_neighbours import has_anti_affinity, neighbourhood
from reconciler.embedded.store import Change
from reconciler.errors import Rejected


def matches(selector: Object | None, node: Object) -> bool:
    """Whether a node selector selects a node. None selects every node, an unreadable one none."""
    if selector is None:
        return True
    metadata = node["metadata"]
    try:
        return NodeSelector.model_validate(selector).matches(metadata["name"], metadata.get("labels", {}))
    except (Rejected, ValueError):
        return False


RUN_SECONDS = "dra-reconciler.io/run-seconds"
"""Annotation: how long the pod runs before it succeeds. Without it a pod runs until it is deleted."""


Schedule = Callable[[Sequence[Object], Object], tuple[str, Object] | None]
"""The node of a pod, and the claim for its extended resources with an allocation there; None if it fits
nowhere. Of the devices, nodes, allocated claims and bound pods, and the pod"""
_MET = (SLICE, DEVICE_CLASS, TAINT_RULE, NODE)


class PodController:
    """Replaces scheduler and kubelet for pods with claims that another process allocates."""

    subject = POD
    sources = (POD, CLAIM, NODE, SLICE, DEVICE_CLASS)

    def __init__(self, api: ApiServer, schedule: Schedule | None) -> None:
        """Without `schedule`, no class serves extended resources."""
        self._api = api
        self._schedule = schedule
        self._without_devices: set[str] = set()
        """Pods for whose extended resources no claim could be allocated"""
        self._waiting: dict[str, set[str]] = {}
        self._without_node: set[str] = set()
        self._with_anti_affinity: set[str] = set()
        """They may keep others away from their nodes"""
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def stop(self) -> None:
        """Cancel the timers that end pods."""
        for timer in self._timers.values():
            timer.cancel()

    def keys(self, change: Change) -> Iterable[str]:
        """The pod itself, and pods that the change may help."""
        kind, key = change.record.kind, change.record.key
        pods, self._without_devices = self._without_devices - {key}, set()
        if kind is POD:
            pods |= self._without_node - {key}
            self._without_node = set()
            return [key, *pods]
        if kind is CLAIM:
            return {*self._waiting.pop(key, ()), *pods}
        if kind is NODE:
            pods |= self._without_node
            self._without_node = set()
        return pods

    def reconcile(self, key: str) -> None:
        """Move a pod to its next phase."""
        record = self._api.store[POD].get(key)
        self._with_anti_affinity.discard(key)
        if record is None:
            return
        pod = record.object
        if has_anti_affinity(pod):
            self._with_anti_affinity.add(key)
        if is_deleting(pod):
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
                self._api.delete(POD, namespace, name, gracePeriodSeconds=0)
            return
        if is_finished(pod):
            return
        if status(pod).get("phase") == "Running":
            self._end_later(pod)
        elif not pod["spec"].get("schedulingGates"):
            self._start(pod, key)

    def _start(self, pod: Object, key: str) -> None:
        claims = self._claims(pod, key)
        if claims is None:
            return
        node = pod["spec"].get("nodeName") or ""
        if not node and (served := self._served(pod)):
            found = self._schedule(self._met(claims), _whole(POD, pod)) if self._schedule else None
            if found is None:
                self._without_devices.add(key)
                nodes = len([*self._api.store[NODE].scan("")])
                self._write_unschedulable(pod, ["cannot allocate all claims"] * nodes)
                return
            node, claim = found
            self._make_special_claim(pod, served, claim)
        if not node:
            node, refusals = self._node(pod, claims)
            if not node:
                self._without_node.add(key)
                self._write_unschedulable(pod, refusals)
                return
        shared = self._group_claims(pod)
        for claim in claims:
            self._reserve(claim, shared.get(claim["metadata"]["name"], pod))
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            self._api.bind(namespace, name, node)
        self._write_status(pod, phase="Running", ready=True)

    def _served(self, pod: Object) -> dict[str, str]:
        """Extended resource -> the class that serves it, if the claim for them is not made yet."""
        containers = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
        asked = ((one.get("resources") or {}).get("requests") or {} for one in containers)
        if self._schedule is None or SPECIAL in claim_names(pod) or "/" not in str([*map(list, asked)]):
            return {}
        classes = (typed(_whole(DEVICE_CLASS, one.object)) for one in self._api.store[DEVICE_CLASS].scan(""))
        found = {one.key.name: one for one in classes}
        return served_by_classes(cast("Pod", typed(_whole(POD, pod))), found)

    def _met(self, own: list[Object]) -> list[Object]:
        """What a pod with these claims meets: devices, nodes, allocated claims, bound pods."""
        store = self._api.store
        met = [_whole(kind, record.object) for kind in _MET for record in store[kind].scan("")]
        claims = (record.object for record in store[CLAIM].scan(""))
        met += [_whole(CLAIM, one) for one in claims if "allocation" in status(one) or one in own]
        pods = (record.object for record in store[POD].scan(""))
        return met + [_whole(POD, one) for one in pods if one["spec"].get("nodeName")]

    def _make_special_claim(self, pod: Object, served: dict[str, str], claim: Object) -> None:
        """Make and allocate the claim for extended resources of a pod, in the steps of kube-scheduler."""
        namespace, metadata = pod["metadata"]["namespace"], claim["metadata"]
        given = {key: value for key, value in metadata.items() if key not in ("name", "finalizers")}
        given["generateName"] = f"{metadata['name']}-"
        made = self._api.create(CLAIM, namespace, {"metadata": given, "spec": claim["spec"]})
        name = made["metadata"]["name"]

        def held(shown: Object) -> Object:
            return {**shown, "metadata": {**shown["metadata"], "finalizers": metadata["finalizers"]}}

        self._api.update(CLAIM, namespace, name, held)
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        update_status(self._api, CLAIM, made, lambda _: {**claim["status"], "reservedFor": [user]})
        mappings = request_mappings(cast("Pod", typed(_whole(POD, pod))), served)
        told = {"resourceClaimName": name, "requestMappings": mappings}
        update_status(self._api, POD, pod, lambda now: {**now, "extendedResourceClaimStatus": told})

    def _claims(self, pod: Object, key: str) -> list[Object] | None:
        """The pod's claims if all are usable; else None, and the pod is queued for the missing claim."""
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

    def _group_claims(self, pod: Object) -> dict[str, Object]:
        """Name of a claim -> the PodGroup that it is reserved for in place of the pod."""
        group, names = group_of(self._api, pod), claim_names(pod)
        entries = pod["spec"].get("resourceClaims", ())
        return {
            str(names[entry["name"]]): group
            for entry in entries
            if group is not None and is_of_group(entry, group)
        }

    def _node(self, pod: Object, claims: list[Object]) -> tuple[str, list[str]]:
        """The first node by name that matches every allocation, the pod, and what other pods require.

        Without one: why each node does not, in the order and words of kube-scheduler.
        """
        near = neighbourhood(pod, self._api, self._with_anti_affinity)
        selectors = [status(claim)["allocation"].get("nodeSelector") for claim in claims]
        labels = pod["spec"].get("nodeSelector", {}).items()
        refusals = []
        for record in self._api.store[NODE].scan(""):
            node = record.object
            if node.get("spec", {}).get("unschedulable"):
                refusals.append("node(s) were unschedulable")
            elif not (labels <= node["metadata"].get("labels", {}).items() and matches(_required(pod), node)):
                refusals.append("node(s) didn't match Pod's node affinity/selector")
            elif refusal := near.refusal(node):
                refusals.append(refusal)
            elif not all(matches(selector, node) for selector in selectors):
                refusals.append("resourceclaim not available on the node")
            else:
                return node["metadata"]["name"], []
        return "", refusals

    def _write_unschedulable(self, pod: Object, refusals: list[str]) -> None:
        """Report that no node fits, as kube-scheduler does that may not preempt."""
        counts = ", ".join(sorted(f"{count} {why}" for why, count in Counter(refusals).items()))
        message = f"0/{len(refusals)} nodes are available: {counts}."
        now: Object = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message if refusals else "no nodes available to schedule pods",
        }

        def written(before: Object) -> Object:
            return {**before, "conditions": with_condition(before, now, timestamp(self._api.now()))}

        update_status(self._api, POD, pod, written)

    def _reserve(self, claim: Object, user: Object) -> None:
        """Reserve a claim for a pod or a PodGroup."""
        metadata = user["metadata"]
        if _is_reserved(claim, user):
            return
        of = {"apiGroup": GROUP, "resource": "podgroups"} if "containers" not in user["spec"] else {}
        entry = {"resource": "pods", **of, "name": metadata["name"], "uid": metadata["uid"]}

        def reserved(before: Object) -> Object:
            return {**before, "reservedFor": [*before.get("reservedFor", ()), entry]}

        update_status(self._api, CLAIM, claim, reserved)

    def _write_status(self, pod: Object, *, phase: str, ready: bool) -> None:
        """Report what a kubelet reports of a pod whose containers all run, or have all ended."""
        moment = timestamp(self._api.now())

        def written(before: Object) -> Object:
            since = before.get("startTime") or moment
            state = (
                {"running": {"startedAt": since}}
                if ready
                else {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": since,
                        "finishedAt": moment,
                    }
                }
            )
            containers = [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",  # as of a kubelet that has not pulled the image
                    "ready": ready,
                    "started": ready,
                    "restartCount": 0,
                    "state": state,
                    "lastState": {},
                }
                for container in pod["spec"]["containers"]
            ]
            conditions = _conditions(before.get("conditions", ()), ready=ready, moment=moment)
            now = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
            return {"startTime": since, **before, **now}

        update_status(self._api, POD, pod, written)

    def _end_later(self, pod: Object) -> None:
        seconds = pod["metadata"].get("annotations", {}).get(RUN_SECONDS, "")
        uid = pod["metadata"]["uid"]
        if not seconds.isdecimal() or uid in self._timers:
            return
        started = parse_timestamp(status(pod).get("startTime") or pod["metadata"]["creationTimestamp"])
        left = (started + timedelta(seconds=int(seconds)) - self._api.now()).total_seconds()
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        loop = asyncio.get_running_loop()
        self._timers[uid] = loop.call_later(max(left, 0.0), self._end, key, uid)

    def _end(self, key: str, uid: str) -> None:
        del self._timers[uid]
        record = self._api.store[POD].get(key)
        if record is not None and record.object["metadata"]["uid"] == uid and not is_finished(record.object):
            self._write_status(record.object, phase="Succeeded", ready=False)


def _conditions(before: Iterable[Object], *, ready: bool, moment: str) -> list[Object]:
    """The conditions that kubelets report; others are kept, and a time changes with its condition."""
    known = {entry.get("type"): entry for entry in before}
    for name in ("Initialized", "Ready", "ContainersReady", "PodScheduled"):
        is_true = ready or name in ("Initialized", "PodScheduled")
        now: Object = {"type": name, "status": "True" if is_true else "False"}
        if not is_true:
            now["reason"] = "PodCompleted"
        if known.get(name, {}).get("status") != now["status"]:
            known[name] = {**now, "lastTransitionTime": moment}
    return list(known.values())


def _is_reserved(claim: Object, user: Object) -> bool:
    return any(entry.get("uid") == user["metadata"]["uid"] for entry in reserved_for(claim))


def _required(pod: Object) -> Object | None:
    """The required node affinity of a pod."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution")


def _usable(claim: Object, pod: Object) -> bool:
    """Whether a claim is allocated, has room for one more consumer, and is not generated for another pod."""
    allocation = status(claim).get("allocation")
    # Like the real scheduler, do not reserve a claim without a timestamp (SCHED-10).
    if not allocation or "allocationTimestamp" not in allocation:
        return False
    owner = owner_of(claim, "Pod")
    if owner is not None and owner["uid"] != pod["metadata"]["uid"]:
        return False
    group = owner_of(claim, "PodGroup")
    if group is not None and group["name"] != group_name(pod):
        return False
    if _is_reserved(claim, pod):
        return True
    return not is_deleting(claim) and len(reserved_for(claim)) < MAX_RESERVED


def _whole(kind: ServedKind, obj: Object) -> Object:
    """A stored object with its kind and version."""
    return {"apiVersion": str(kind.stored), "kind": kind.kind, **obj}


class NodeController:
    """Adds the condition Ready to nodes that report none. A reported condition is left alone."""

    subject = NODE
    sources = (NODE,)

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def keys(self, change: Change) -> Iterable[str]:
        """The node itself."""
        return [change.record.key]

    def reconcile(self, key: str) -> None:
        """Add the condition if it is missing."""
        record = self._api.store[NODE].get(key)
        if record is None or _reports(record.object):
            return
        moment = timestamp(self._api.now())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "NoKubelet",
            "message": "the embedded API server has no kubelets; it reports its nodes as ready",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }

        def reported(before: Object) -> Object:
            return {**before, "conditions": [*(before.get("conditions") or []), ready]}

        update_status(self._api, NODE, record.object, reported)


def _reports(node: Object) -> bool:
    conditions = status(node).get("conditions") or ()
    return any(condition and condition.get("type") == "Ready" for condition in conditions)
