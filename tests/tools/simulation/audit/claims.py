"""What claims say, read from JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.tools.simulation.audit.amounts import Amount, amount
from tests.tools.simulation.audit.pools import Pool


@dataclass(frozen=True)
class Hold:
    """One device that a claim holds."""

    request: str
    pool: Pool
    device: str
    share: str | None
    consumed: Mapping[str, Amount]


def allocation(claim: Any) -> Any:
    return claim.get("status", {}).get("allocation")


def was_freed(before: Any, claim: Any) -> bool:
    """Whether the resourceclaim controller took the allocation of a claim that nobody uses any more."""
    same = before["metadata"]["uid"] == claim["metadata"]["uid"]
    used = bool(before.get("status", {}).get("reservedFor"))
    return same and used and bool(allocation(before)) and not allocation(claim)


def holds(claim: Any) -> list[Hold]:
    """The devices a claim holds."""
    return [
        Hold(
            result["request"],
            (result["driver"], result["pool"]),
            result["device"],
            result.get("shareID"),
            {name: amount(value) for name, value in result.get("consumedCapacity", {}).items()},
        )
        for result in (allocation(claim) or {}).get("devices", {}).get("results", ())
    ]


def selected(claim: Any, zones: Mapping[str, str]) -> frozenset[str]:
    """The nodes on which an allocation can be used."""
    selector = allocation(claim).get("nodeSelector")
    if selector is None:
        return frozenset(zones)
    return frozenset(
        node for node in zones if any(_suits(term, node, zones) for term in selector["nodeSelectorTerms"])
    )


def _suits(term: Any, node: str, zones: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions", []), term.get("matchFields", [])
    for one in (*expressions, *fields):
        value = {"metadata.name": node, "zone": zones[node]}[one["key"]]
        if one["operator"] != "In" or value not in one["values"]:
            return False
    return bool(expressions or fields)


def asks(claim: Any) -> list[list[tuple[str, Any]]]:
    """For each request its alternatives: the name that results carry, and what is wanted."""
    return [
        [(request["name"], request["exactly"])]
        if "exactly" in request
        else [(f"{request['name']}/{way['name']}", way) for way in request["firstAvailable"]]
        for request in claim["spec"]["devices"]["requests"]
    ]


def is_deleting(thing: Any) -> bool:
    return "deletionTimestamp" in thing["metadata"]


def has_finalizer(claim: Any) -> bool:
    return "resource.kubernetes.io/delete-protection" in claim["metadata"].get("finalizers", ())


def is_managed(claim: Any) -> bool:
    return claim["metadata"].get("labels", {}).get("dra-reconciler.io/managed") == "true"


def claims_of(pod: Any) -> list[str | None]:
    """Keys of the pod's claims, each once; None for one that is not made yet."""
    made = {
        one["name"]: one.get("resourceClaimName")
        for one in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    names = [
        entry.get("resourceClaimName") or made.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims", ())
    ]
    return list(dict.fromkeys(f"default/{name}" if name else None for name in names))
