"""What a server serves, which features it lacks, and what this account may do there.

A server drops fields from our writes whose feature gate is off (ST-10). It does not show its gates to
ordinary clients, so they are derived from its release and its kinds. `--feature-gates` overrides gates
that differ from their default. What an account may do is asked by SelfSubjectAccessReview.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from reconciler.api.objects.semantics import GATES, NEWEST_MINOR, FeatureGate
from reconciler.api.versions.kinds import KINDS, NOT_FOLLOWED, RESOURCE, SCHEDULING, is_newer
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import NODE, POD, TEMPLATE, Resource, Served, resource_of
from reconciler.errors import Gone, Rejected

_NEEDED = ("ResourceSlice", "ResourceClaim", "DeviceClass")
_READ = (*_NEEDED, "DeviceTaintRule")

CLAIM = resource_of("ResourceClaim")
"""The kind for servers that do not serve it"""


async def serves(client: Client, resource: Resource) -> bool:
    """Whether a server has a kind in this version."""
    try:
        return resource.plural in await _offered(client, resource.root)
    except Gone:
        return False


async def negotiate(client: Client, name: str) -> Resource:
    """A kind in the best version that the server serves. Raises Gone if it serves none that is read."""
    kind = KINDS[name]
    if len(kind.versions) > 1:  # else there is nothing to choose: listing shows whether it is served
        offered = await _served_versions(client, kind.group)
        for version in kind.versions:
            found = resource_of(name, version)
            if version in offered and await serves(client, found):
                return found
        raise Gone(f"the server does not serve {kind.name} of {kind.group} in {' or '.join(kind.versions)}")
    return resource_of(name)


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
    versions = await _served_versions(client, RESOURCE)
    offered = {version: await _offered(client, f"/apis/{RESOURCE}/{version}") for version in versions}
    resources = {resource.kind: resource for resource in (NODE, POD)}
    lacking = ""
    for name in (*_READ, *(kind for kind in also if kind == TEMPLATE.kind)):
        kind = KINDS[name]
        found = [one for one in kind.versions if kind.plural in offered.get(one, ())]
        if found:
            resources[name] = resource_of(name, found[0])
        elif name in _NEEDED and not lacking:
            lacking = (
                f"the server does not serve {name} of {RESOURCE} in any of {', '.join(kind.versions)}; it "
                f"offers {', '.join(offered) or 'no version'}. Is DynamicResourceAllocation enabled?"
            )
    return Served(resources), lacking


def unserved(served: Served) -> list[str]:
    """Known kinds, and newer versions of kinds, that the server does not serve."""
    missing = []
    for name in _READ:
        versions = KINDS[name].versions
        used = served[name].version if name in served else None
        better = versions[: versions.index(used)] if used in versions else versions
        missing += [f"{RESOURCE}/{version} {name}" for version in better]
    return missing


async def newer_kinds(client: Client) -> list[Raw]:
    """The kinds about devices and gangs that the server has and this program does not know, each as an object
    without a name. Raises the errors of `Client`.
    """
    found: dict[tuple[str, str], Raw] = {}
    for group in dict.fromkeys((RESOURCE, SCHEDULING, *(group for group, _ in NOT_FOLLOWED))):
        for version in await _served_versions(client, group):
            for kind in (one["kind"] for one in await _watchable(client, f"/apis/{group}/{version}")):
                if is_newer(group, kind):
                    raw: Raw = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": ""}}
                    found.setdefault((group, kind), raw)
    return list(found.values())


async def _served_versions(client: Client, group: str) -> list[str]:
    try:
        found = await client.fetch(f"/apis/{group}")
    except Gone:
        return []
    return [entry["version"] for entry in found["versions"]]


async def _offered(client: Client, path: str) -> frozenset[str]:
    """The plurals of the kinds of one version that can be watched."""
    return frozenset(entry["name"] for entry in await _watchable(client, path))


async def _watchable(client: Client, path: str) -> list[Raw]:
    """The entries of the kinds of one version that can be watched. A server may write null for none."""
    listing = await client.fetch(path)
    return [entry for entry in listing["resources"] or () if "watch" in entry["verbs"]]


EMBEDDED = "dra-reconciler"
"""Part of the version of our embedded server, which has every feature."""


async def missing_gates(client: Client, served: Served) -> frozenset[str]:
    """Gates that are off on the server, as far as known. Raises Retry while it is unreachable."""
    version = await client.fetch("/version")
    if EMBEDDED in str(version.get("gitVersion", "")):
        return frozenset()
    release = re.match(r"[0-9]+", str(version.get("minor", "")))  # some vendors write 34+
    minor = int(release[0]) if release is not None else NEWEST_MINOR
    kinds = {gate.shown_by for gate in GATES.values() if gate.shown_by}
    shown = {kind for kind in sorted(kinds) if kind in served or await _shows(client, kind)}
    return frozenset(
        name for name, gate in GATES.items() if not gate.is_preview and _is_off(gate, shown, minor)
    )


async def _shows(client: Client, name: str) -> bool:
    """Whether the server has a kind in a version that is used. Those of RESOURCE were looked for before."""
    kind = KINDS[name]
    found = await _served_versions(client, kind.group) if kind.group != RESOURCE else ()
    return any([await serves(client, resource_of(name, one)) for one in kind.versions if one in found])


def _is_off(gate: FeatureGate, shown: Collection[str], minor: int) -> bool:
    if gate.needs_no_server:
        return False
    if gate.shown_by:
        return gate.shown_by not in shown
    return gate.on_since is None or minor < gate.on_since


REVIEW = Resource(
    "SelfSubjectAccessReview", "authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False
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
