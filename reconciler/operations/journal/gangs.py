"""Records decisions about gangs, and makes them again, or checks them.

A decision can be made again if its pods minded nothing of one another but room, and it was found in the state
of its entry (`gang_places.py`). Otherwise the choice of nodes depends on what the journal does not have: the
nodes are taken as recorded, and the allocator decides again whether the recorded devices serve the claims
there, one pod after another.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.allocation.gangs.places import GangNodes
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.control.gangs.planner import Solve
from reconciler.control.planner import NOT_OURS
from reconciler.operations.journal.entries import Decided
from reconciler.state.devices.snapshot import Snapshot, Topology
from reconciler.state.nodes.room import CPU, MOST, PODS
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import Nominee, of_claim, of_gang, of_pod
from reconciler.state.store import Store
from reconciler.state.trial import Trial


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


GANG = "gang"
"""The type of the entry"""


def write_gang(
    name: str, solve: Solve, answer: GangGranted | GangUnsatisfied, picture: GangNodes | None
) -> dict[str, Any]:
    """The question about a gang, its answer, and what it saw of nodes if that decided its nodes."""
    question = solve.question
    entry: dict[str, Any] = {
        "t": GANG,
        "id": name,
        "gang": list(question.gang),
        "size": solve.rules.least,
        "least": question.least,
        "tiers": [[tier.key, "required" if tier.required else "preferred"] for tier in question.tiers],
        "nodes": list(question.nodes),
        "members": [
            {
                "pod": list(member.pod.key),
                "claims": [list(claim.key) for claim in member.claims],
                "held": [list(claim.key) for claim in member.held],
            }
            for member in question.members
        ],
        "devices": [list(device) for device in question.devices],
        "steps": answer.steps,
    }
    if picture is not None:
        entry["sees"] = write_picture(picture)
    if not question.policies.first_fit:
        name = answer.policy if isinstance(answer, GangGranted) else ""
        policies = question.policies
        entry["policy"] = {"name": name, "seed": policies.seed, "demand": policies.demand.digest}
    if isinstance(answer, GangUnsatisfied):
        return {**entry, "reason": answer.reason, "message": answer.message, "fits": answer.fits}
    return {
        **entry,
        "reason": "",
        "domain": [[tier.key, value] for tier, value in answer.domain],
        "leftOut": [list(key) for key in answer.left_out],
        "seats": _seats(answer),
    }


def _seats(answer: GangGranted) -> list[dict[str, Any]]:
    return [
        {
            "pod": list(seat.pod),
            "node": seat.node,
            "devices": [
                f"{plan.claim} {result.request}={result.id}"
                for plan in seat.plans
                for result in plan.allocation.devices.results
            ],
        }
        for seat in answer.seats
    ]


def read_gang(raw: dict[str, Any]) -> Decided | None:
    """The decision of an entry; None for a refusal that cannot be made again."""
    if raw["reason"] and ("sees" not in raw or raw["reason"] in (NOT_OURS, Reason.GAVE_UP)):
        return None
    devices = _devices_of_claims(raw)
    return Decided(
        id=raw["id"],
        unit=f"gang {ObjectKey(raw['gang'][0], raw['gang'][-1])}",
        claims=tuple(devices),
        nodes=None,
        behind=0,
        reason=raw["reason"],
        node=", ".join(dict.fromkeys(seat["node"] for seat in raw.get("seats", ()))),
        devices=tuple(devices.values()),
    )


def decided_again(
    raw: dict[str, Any],
    then: Decided,
    store: Store,
    *,
    steps: int,
    restricted: Callable[[ResourceClaim], ResourceClaim],
    policies: Policies,
) -> Decided | None:
    """The decision as it would be now. None if the journal does not have what it saw.

    The store is as before on return. `restricted` limits a claim to our devices.
    """
    if "sees" not in raw:
        return checked(raw, then, store, steps=steps, restricted=restricted)
    question = read_question(raw, store, restricted=restricted, policies=policies)
    nodes = read_nodes(raw["sees"], store.snapshot().topology)
    if question is None or nodes is None:
        return None
    with Trial(store, nodes, supposed=False, own=_own(raw)) as trial:
        answer = decide_gang(question, trial, steps=steps, budget=UNLIMITED)
    if isinstance(answer, GangUnsatisfied):
        return replace(then, reason=answer.reason, node="", devices=())
    found = _devices_of_claims({"seats": _seats(answer)})
    node = ", ".join(dict.fromkeys(seat.node for seat in answer.seats))
    return replace(then, reason="", node=node, claims=tuple(found), devices=tuple(found.values()))


def checked(
    raw: dict[str, Any],
    then: Decided,
    store: Store,
    *,
    steps: int,
    restricted: Callable[[ResourceClaim], ResourceClaim],
) -> Decided | None:
    """The decision if the recorded devices serve the claims on the recorded nodes now, else the reason why
    not. None if claims are unknown.

    The store is as before on return. `restricted` limits a claim to our devices.
    """
    recorded = _devices_of_claims(raw)
    if any(key not in store.claims for key in recorded):
        return None
    held: list[Plan] = []
    own = _own(raw)
    try:
        for seat in raw["seats"]:
            keys = list(_devices_of_claims({"seats": [seat]}))
            claims = [restricted(store.claims[key]) for key in keys]
            snapshot = store.snapshot_for(own)
            only = {
                (at, request): frozenset(rows)
                for at, key in enumerate(keys)
                for request, rows in _rows(recorded[key], snapshot).items()
            }
            if not claims:
                continue
            outcome = decide(claims, snapshot, nodes=[seat["node"]], steps=steps, only=only)
            if not isinstance(outcome, Granted):
                return replace(then, reason=str(outcome.reason), node="", devices=())
            del snapshot
            for plan in outcome.plans:
                store.assume(plan)
                held.append(plan)
        return then
    finally:
        for plan in reversed(held):
            store.forget(plan)


def _own(raw: dict[str, Any]) -> frozenset[Nominee]:
    """What is nominated for others was held. Claims that several members share are among them."""
    gang = GangKey(raw["gang"][0], GangSource(raw["gang"][1]), raw["gang"][2])
    pods = (of_pod(ObjectKey(*member["pod"])) for member in raw["members"])
    claims = (of_claim(ObjectKey(*key)) for member in raw["members"] for key in member["claims"])
    return frozenset([of_gang(gang), *pods, *claims])


def _devices_of_claims(raw: dict[str, Any]) -> dict[ObjectKey, tuple[str, ...]]:
    """Claim -> its `request=DRIVER/POOL/DEVICE` in order."""
    found: dict[ObjectKey, tuple[str, ...]] = {}
    for seat in raw.get("seats", ()):
        for text in seat["devices"]:
            name, _, device = text.partition(" ")
            namespace, _, own = name.partition("/")
            key = ObjectKey(namespace, own)
            found[key] = (*found.get(key, ()), device)
    return found


def _rows(devices: tuple[str, ...], snapshot: Snapshot) -> dict[str, list[int]]:
    """Request -> rows of its devices."""
    found: dict[str, list[int]] = {}
    for text in devices:
        request, _, name = text.partition("=")
        found.setdefault(request.partition("/")[0], []).extend(snapshot.fleet.rows_of(_id(name)))
    return found


def _id(name: str) -> DeviceID:
    """A pool's name may have slashes."""
    driver, _, rest = name.partition("/")
    pool, _, device = rest.rpartition("/")
    return DeviceID(driver, pool, device)
