"""Asks the server what this account may do, by SelfSubjectAccessReview."""

from collections.abc import Iterable
from typing import NamedTuple

from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource

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


async def missing(client: Client, rights: Iterable[Right]) -> list[Right]:
    """Those that this account does not have. Raises the errors of `Client`."""
    return [right for right in rights if not await _has(client, right)]


async def _has(client: Client, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": part}
    review = {"kind": REVIEW.kind, "apiVersion": REVIEW.api_version, "metadata": {}}
    answer = await client.create(REVIEW, {**review, "spec": {"resourceAttributes": attributes}})
    status = answer.get("status")
    return isinstance(status, dict) and status.get("allowed") is True
