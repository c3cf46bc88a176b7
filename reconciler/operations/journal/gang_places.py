"""What a decision about a gang saw of nodes: written, and as a question and nodes that give the same answer.

The nodes have the recorded labels and offer what was left on them. The pods have the recorded needs, and an
affinity for the nodes that suited them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.allocation.gangs.places import GangNodes
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.state.devices.snapshot import Topology
from reconciler.state.nodes.room import CPU, MOST, PODS
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store


def write_picture(picture: GangNodes) -> dict[str, Any]:
    """Nodes by their position in the order of the topology; `nodes` is null for all."""
    return {
        "free": {name: amounts.tolist() for name, amounts in picture.free.items()},
        "kinds": [
            {
                "members": list(kind.positions),
                "wanted": dict(kind.wanted),
                "nodes": None if kind.allowed.all() else np.flatnonzero(kind.allowed).tolist(),
            }
            for kind in picture.kinds
        ],
    }


def read_nodes(raw: Mapping[str, Any], topology: Topology) -> Nodes | None:
    """The nodes of a picture. None if they are not those of the topology."""
    free, order = raw["free"], topology.order
    if any(len(amounts) != len(order) for amounts in free.values()):
        return None
    nodes = Nodes()
    for at, name in enumerate(order):
        left = {resource: amounts[at] for resource, amounts in free.items()}
        known = topology.nodes.get(name)
        nodes.note(
            Changed(
                "Node",
                Node.model_validate(
                    {
                        "metadata": {"name": name, "labels": {} if known is None else dict(known.labels)},
                        # A node that is not tested for room offers nothing.
                        "status": {"allocatable": {} if MOST in left.values() else _quantities(left)},
                    }
                ),
            )
        )
    return nodes


def read_question(
    raw: Mapping[str, Any],
    store: Store,
    *,
    restricted: Callable[[ResourceClaim], ResourceClaim],
    policies: Policies,
) -> GangQuestion | None:
    """The question of an entry. None if a claim is not known."""
    namespace, source, name = raw["gang"]
    kind_of = {at: kind for kind in raw["sees"]["kinds"] for at in kind["members"]}
    order = store.snapshot().topology.order
    members = []
    for at, one in enumerate(raw["members"]):
        claims = [store.claims.get(ObjectKey(*key)) for key in one["claims"]]
        held = [store.claims.get(ObjectKey(*key)) for key in one["held"]]
        if None in claims or None in held:
            return None
        members.append(
            Member(
                _pod(ObjectKey(*one["pod"]), kind_of[at], order),
                tuple(restricted(claim) for claim in claims if claim is not None),
                tuple(claim for claim in held if claim is not None),
            )
        )
    return GangQuestion(
        GangKey(namespace, GangSource(source), name),
        tuple(members),
        raw["least"],
        tuple(Tier(key, required=how == "required") for key, how in raw["tiers"]),
        tuple(raw["nodes"]),
        tuple(DeviceID(*device) for device in raw["devices"]),
        policies=policies,
    )


def _pod(key: ObjectKey, kind: Mapping[str, Any], order: tuple[str, ...]) -> Pod:
    """Pods of one kind have equal specs, and others another one."""
    wanted = {resource: amount for resource, amount in kind["wanted"].items() if resource != PODS}
    number = str(kind["members"][0])
    spec: dict[str, Any] = {
        "containers": [{"name": f"kind-{number}", "resources": {"requests": _quantities(wanted)}}]
    }
    if kind["nodes"] is not None:
        names = [order[at] for at in kind["nodes"]]
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}
        required = {"nodeSelectorTerms": [term]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    metadata = {"namespace": key.namespace, "name": key.name, "uid": str(key)}
    return Pod.model_validate({"metadata": metadata, "spec": spec})


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items()}
