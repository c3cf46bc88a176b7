"""Which version of resource.k8s.io a server serves. The newest that we read is used for everything."""

from collections.abc import Collection

from reconciler.cluster.client import Client
from reconciler.cluster.kinds import NODE, PAGE, POD, Resource, Served
from reconciler.errors import Gone, Rejected

GROUP = "resource.k8s.io"

_CLAIMS = ("v1", "v1beta2", "v1beta1")
_VERSIONS = {
    "ResourceSlice": _CLAIMS,
    "ResourceClaim": _CLAIMS,
    "DeviceClass": _CLAIMS,
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
}
"""Best first. Claims of v1alpha3 are read from files alone: Kubernetes 1.31 does not take our answers."""

_FOR_READERS = {"ResourceClaimTemplate": _CLAIMS}
"""Kinds that nothing is decided by: for those who look at a cluster as a whole"""

_OPTIONAL = {"DeviceTaintRule", *_FOR_READERS}
_SMALL_PAGES = {"ResourceSlice": 50}
"""A slice holds up to 128 devices: fifty of them take as long to decode as five hundred claims."""


CLAIM = Resource("ResourceClaim", GROUP, "v1", "resourceclaims", namespaced=True)
"""For whoever has to name the kind where it is not served: nobody has such a claim there."""


async def discover(client: Client, *, also: Collection[str] = ()) -> Served:
    """Ask the server once, at start; `also` names kinds beyond those that decisions need.

    Raises Rejected when it has no claims or slices that we can read.
    """
    found, lacking = await _look(client, also)
    if lacking:
        raise Rejected(lacking)
    return found


async def discover_at_least_pods(client: Client) -> Served:
    """The same, but from a server without claims or slices that we can read, only pods and nodes."""
    found, lacking = await _look(client, ())
    return Served({kind: found[kind] for kind in (NODE.kind, POD.kind)}) if lacking else found


async def _look(client: Client, also: Collection[str]) -> tuple[Served, str]:
    """What there is, and in words what is missing that claims need."""
    offered = {version: await _offered(client, version) for version in await _served_versions(client)}
    resources = {resource.kind: resource for resource in (NODE, POD)}
    lacking = ""
    wanted = {**_VERSIONS, **{kind: _FOR_READERS[kind] for kind in _FOR_READERS if kind in also}}
    for kind, versions in wanted.items():
        found = [offered[version][kind] for version in versions if kind in offered.get(version, {})]
        if found:
            resources[kind] = found[0]
        elif kind not in _OPTIONAL and not lacking:
            lacking = (
                f"the server does not serve {kind} of {GROUP} in any of {', '.join(versions)}; it offers "
                f"{', '.join(offered) or 'no version at all'}. Is DynamicResourceAllocation enabled?"
            )
    return Served(resources), lacking


def unserved(served: Served) -> list[str]:
    """What we would rather have used than what there is: kinds, and newer versions of kinds."""
    missing = []
    for kind, versions in _VERSIONS.items():
        used = served[kind].version if kind in served else None
        better = versions[: versions.index(used)] if used in versions else versions
        missing += [f"{GROUP}/{version} {kind}" for version in better]
    return missing


async def _served_versions(client: Client) -> list[str]:
    try:
        group = await client.fetch(f"/apis/{GROUP}")
    except Gone:
        return []
    return [entry["version"] for entry in group["versions"]]


async def _offered(client: Client, version: str) -> dict[str, Resource]:
    """What one version serves, by kind; subresources (`resourceclaims/status`) are not kinds."""
    listing = await client.fetch(f"/apis/{GROUP}/{version}")
    return {
        entry["kind"]: Resource(
            entry["kind"],
            GROUP,
            version,
            entry["name"],
            namespaced=entry["namespaced"],
            page=_SMALL_PAGES.get(entry["kind"], PAGE),
        )
        for entry in listing["resources"]
        if "/" not in entry["name"] and "watch" in entry["verbs"]
    }
