"""An embedded server that has roles and admission policies as objects, and judges by them what clients send.

Its own code judges by roles; policies are evaluated by `admission_policies`. Controllers in its process are
not judged.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.served_kinds import NAMESPACE
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.accounts import Account, Roles
from reconciler.embedded.guard import Guard
from reconciler.embedded.routing import Stream, Target
from reconciler.errors import Malformed
from tests.tools.admission_policies import Policy, Review

T = TypeVar("T")
_RBAC = GroupVersion("rbac.authorization.k8s.io", "v1")
_ADMISSION = GroupVersion("admissionregistration.k8s.io", "v1")
_CREATED = ("binding", "eviction")
"""Subresources of pods that are created, whatever becomes of the pod"""


def _kind(kind: str, served: GroupVersion, *, namespaced: bool = False) -> ServedKind:
    name = kind.lower()
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return ServedKind(kind, plural, name, (served,), namespaced=namespaced)


ACCOUNTS = _kind("ServiceAccount", NAMESPACE.stored, namespaced=True)
RIGHTS = (
    _kind("ClusterRole", _RBAC),
    _kind("ClusterRoleBinding", _RBAC),
    _kind("Role", _RBAC, namespaced=True),
    _kind("RoleBinding", _RBAC, namespaced=True),
)
POLICIES = (
    _kind("MutatingAdmissionPolicy", _ADMISSION),
    _kind("MutatingAdmissionPolicyBinding", _ADMISSION),
    _kind("ValidatingAdmissionPolicy", _ADMISSION),
    _kind("ValidatingAdmissionPolicyBinding", _ADMISSION),
)
KINDS = (ACCOUNTS, *RIGHTS, *POLICIES)


class Policed(ApiServer):
    """Judges each request, and keeps what admission judged."""

    def __init__(self, tokens: Mapping[str, Account]) -> None:
        """Accounts get their rights from objects; those in `system:masters` have all."""
        self._guard = Guard(tokens, Roles())
        super().__init__(KINDS, guard=self._guard)
        self.judged: list[Review] = []
        self._unjudged = self.writer.admit
        self._roles = self._made_of(RIGHTS, _roles)
        self._policies = self._made_of(POLICIES, _policies)

    def handle(self, request: Request) -> Response | Stream:
        self._guard.roles = self._roles()
        self.writer.admit = partial(self._judge, request)
        try:
            return super().handle(request)
        finally:
            self.writer.admit = self._unjudged

    def _made_of(self, kinds: Iterable[ServedKind], make: Callable[[list[Object]], T]) -> Callable[[], T]:
        """What `make` makes of all objects of some kinds: made again when one of them has changed."""
        shelves = [self.store[kind] for kind in kinds]
        known: dict[tuple[int, ...], T] = {}

        def made() -> T:
            now = tuple(shelf.end for shelf in shelves)
            if now not in known:
                known.clear()
                known[now] = make(
                    [
                        {"kind": shelf.kind.kind, "apiVersion": str(shelf.kind.stored), **record.object}
                        for shelf in shelves
                        for record in shelf.scan("")
                    ]
                )
            return known[now]

        return made

    def _judge(self, request: Request, target: Target, new: Object | None, old: Object | None) -> None:
        """As the API server: policies that mutate come first, and those that validate see the result."""
        namespace = self.store[NAMESPACE].get(target.namespace)
        operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
        # Policies are written for the preferred version of a group, and get objects of others converted.
        version = next(one for one in target.kind.served if one.group == target.served.group)
        review = Review(
            "CREATE" if target.subresource in _CREATED else operation,
            old=None if old is None else target.kind.downgrade(old, version),
            new=None if new is None else target.kind.downgrade(new, version),
            resource=target.kind.plural,
            subresource=target.subresource,
            user=self._guard.account(request).name,
            labels=namespace.object["metadata"].get("labels", {}) if namespace else {},
        )
        mutating, validating = self._policies()
        if mutating and new is not None and old is None:
            changed = new
            for policy in mutating:
                changed = policy.mutated(review)
                review = replace(review, new=changed)
            new.clear()
            new.update(target.kind.upgrade(changed, version))
            target.kind.defaults(new, self.now())
        self.judged.append(review)
        for policy in validating:
            for message in policy.refusals(review):
                raise _denied(target, policy.name, message)


def _roles(found: list[Object]) -> Roles:
    """Nobody has any right while a binding names a role that is missing."""
    try:
        return Roles.read(found)
    except Malformed:
        return Roles()


def _policies(found: list[Object]) -> tuple[list[Policy], list[Policy]]:
    """Policies that mutate, and policies that validate: those that a binding names."""
    bound = {one["spec"]["policyName"] for one in found if one["kind"].endswith("Binding")}
    mutating, validating = (
        [Policy(one) for one in found if one["kind"] == kind and one["metadata"]["name"] in bound]
        for kind in ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    )
    return mutating, validating


def _denied(target: Target, policy: str, message: str) -> Refusal:
    subject = f"{target.kind.plural}.{target.served.group}".rstrip(".")
    said = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {message}"
    details: dict[str, Any] = {"name": target.name, "group": target.served.group, "kind": target.kind.plural}
    return Refusal(422, "Invalid", f'{subject} "{target.name}" is forbidden: {said}', details=details)
