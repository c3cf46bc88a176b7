"""What a server serves, which features it lacks, and what this account may do there.

A server drops fields from our writes whose feature gate is off (ST-10). It does not show its gates to
ordinary clients, so they are derived from its release and its kinds. `--feature-gates` overrides gates
that differ from their default. What an account may do is asked by SelfSubjectAccessReview.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from reconciler.api.objects.semantics import GATES, NEWEST_MINOR, FeatureGate
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
"""Best first. Claims of v1alpha3 are read only from files: Kubernetes 1.31 does not accept our writes."""

_FOR_READERS = {"ResourceClaimTemplate": _CLAIMS}
"""Kinds that decisions do not need: for commands that read a whole cluster"""

_OPTIONAL = {"DeviceTaintRule", *_FOR_READERS}
_SMALL_PAGES = {"ResourceSlice": 50}
"""A slice holds up to 128 devices: fifty of them take as long to decode as five hundred claims."""
_SINGLY = frozenset({"ResourceSlice"})
"""See `Resource.singly`"""


CLAIM = Resource("ResourceClaim", GROUP, "v1", "resourceclaims", namespaced=True)
"""The kind for servers that do not serve it"""


async def serves(client: Client, resource: Resource) -> bool:
    """Whether a server has a kind in this version."""
    try:
        listing = await client.fetch(resource.root)
    except Gone:
        return False
    return resource.plural in [entry["name"] for entry in listing.get("resources", ())]


async def discover(client: Client, *, also: Collection[str] = ()) -> Served:
    """Ask the server once, at start. `also` names kinds beyond those that decisions need.

    Raises Rejected if it serves no readable version of claims or slices.
    """
    found, lacking = await _look(client, also)
    if lacking:
        raise Rejected(lacking)
    return found


async def discover_at_least_pods(client: Client) -> Served:
    """Like `discover`, but only pods and nodes if the server serves no readable claims or slices."""
    found, lacking = await _look(client, ())
    return Served({kind: found[kind] for kind in (NODE.kind, POD.kind)}) if lacking else found


async def _look(client: Client, also: Collection[str]) -> tuple[Served, str]:
    """The served kinds, and a message if required kinds are missing."""
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
                f"{', '.join(offered) or 'no version'}. Is DynamicResourceAllocation enabled?"
            )
    return Served(resources), lacking


def unserved(served: Served) -> list[str]:
    """Known kinds, and newer versions of kinds, that the server does not serve."""
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
    """The kinds of one version. Subresources such as `resourceclaims/status` are not kinds."""
    listing = await client.fetch(f"/apis/{GROUP}/{version}")
    return {
        entry["kind"]: Resource(
            entry["kind"],
            GROUP,
            version,
            entry["name"],
            namespaced=entry["namespaced"],
            page=_SMALL_PAGES.get(entry["kind"], PAGE),
            singly=entry["kind"] in _SINGLY,
        )
        for entry in listing["resources"]
        if "/" not in entry["name"] and "watch" in entry["verbs"]
    }


EMBEDDED = "dra-reconciler"
"""Part of the version of our embedded server, which has every feature."""


async def missing_gates(client: Client, served: Served) -> frozenset[str]:
    """Gates that are off on the server, as far as known. Raises Retry while it is unreachable."""
    version = await client.fetch("/version")
    if EMBEDDED in str(version.get("gitVersion", "")):
        return frozenset()
    release = re.match(r"[0-9]+", str(version.get("minor", "")))  # some vendors write 34+
    minor = int(release[0]) if release is not None else NEWEST_MINOR
    return frozenset(
        name for name, gate in GATES.items() if not gate.is_preview and _is_off(gate, served, minor)
    )


def _is_off(gate: FeatureGate, served: Served, minor: int) -> bool:
    if gate.needs_no_server:
        return False
    if gate.shown_by:
        return gate.shown_by not in served
    return gate.on_since is None or minor < gate.on_since


REVIEW = Resource(
    "SelfSubjectAccessReview",
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    namespaced=False,
)


class Right(NamedTuple):
    """One verb on one resource, in all namespaces."""

    verb: str
    resource: str
    """With its subresource: `pods/eviction`"""
    group: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


async def missing_rights(client: Client, rights: Iterable[Right]) -> list[Right]:
    """Those that this account does not have. Raises the errors of `Client`."""
    return [right for right in rights if not await _has(client, right)]


async def _has(client: Client, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": part}
    review = {"kind": REVIEW.kind, "apiVersion": REVIEW.api_version, "metadata": {}}
    answer = await client.create(REVIEW, {**review, "spec": {"resourceAttributes": attributes}})
    status = answer.get("status")
    return isinstance(status, dict) and status.get("allowed") is True
