"""Roles, their bindings, and what they allow. Source: rbac.authorization.k8s.io/v1; rules only allow."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.embedded.access.accounts import Account
from reconciler.errors import Malformed

ALL = "*"
_GROUP = "rbac.authorization.k8s.io"
_DELEGATOR = {
    "apiVersion": f"{_GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:auth-delegator"},
    "rules": [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ],
}
"""A role that exists in every cluster"""


class AccessRequest(Struct, frozen=True):
    """The access that a request needs."""

    verb: str
    group: str = ""
    resource: str = ""
    """Includes the subresource: `resourceclaims/status`"""
    namespace: str = ""
    """Empty for cluster-scoped kinds and for all namespaces"""
    name: str = ""
    path: str = ""
    """For non-resource requests, such as /metrics; the other fields except verb are then empty"""


class _Rule(Struct, frozen=True):
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: tuple[str, ...]

    def allows(self, access: AccessRequest) -> bool:
        if not _has(self.verbs, access.verb):
            return False
        if access.path:
            return any(_matches(pattern, access.path) for pattern in self.paths)
        if not _has(self.groups, access.group) or (self.names and access.name not in self.names):
            return False
        _, _, part = access.resource.partition("/")
        return _has(self.resources, access.resource) or (bool(part) and f"*/{part}" in self.resources)

    def shown(self) -> dict[str, Any]:
        """The rule as in a SelfSubjectRulesReview."""
        found: dict[str, Any] = {"verbs": sorted(self.verbs)}
        if self.paths:
            return {**found, "nonResourceURLs": list(self.paths)}
        found |= {"apiGroups": sorted(self.groups), "resources": sorted(self.resources)}
        return {**found, "resourceNames": sorted(self.names)} if self.names else found


class _Grant(Struct, frozen=True):
    """A binding of a role to users and groups, in one namespace; in all if `namespace` is empty."""

    users: frozenset[str]
    groups: frozenset[str]
    namespace: str
    rules: tuple[_Rule, ...]

    def covers(self, account: Account, namespace: str) -> bool:
        """Whether the rules apply to the account in a namespace."""
        return (not self.namespace or self.namespace == namespace) and bool(
            account.name in self.users or account.groups & self.groups
        )


class Roles:
    """The permissions of accounts."""

    def __init__(self, grants: Iterable[_Grant] = ()) -> None:
        self._grants = tuple(grants)

    @classmethod
    def read(cls, objects: Iterable[Mapping[str, Any]]) -> "Roles":
        """From ClusterRoles, Roles and their bindings; other kinds are ignored. One role is built in.

        Raises Malformed for a binding to an unknown role: it would allow nothing.
        """
        found: list[Mapping[str, Any]] = [_DELEGATOR]
        found += [item for item in objects if str(item.get("apiVersion", "")).startswith(f"{_GROUP}/")]
        rules = {
            (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): tuple(
                _rule(rule) for rule in item.get("rules") or ()
            )
            for item in found
            if item["kind"] in ("ClusterRole", "Role")
        }
        return cls(_grant(item, rules) for item in found if item["kind"].endswith("RoleBinding"))

    def allows(self, account: Account, access: AccessRequest) -> bool:
        """Whether a role of the account allows the access."""
        return any(
            grant.covers(account, access.namespace) and any(rule.allows(access) for rule in grant.rules)
            for grant in self._grants
        )

    def rules(self, account: Account, namespace: str) -> list[dict[str, Any]]:
        """The rules that apply to the account in a namespace, as in a SelfSubjectRulesReview."""
        return [
            rule.shown() for grant in self._grants if grant.covers(account, namespace) for rule in grant.rules
        ]


def _has(allowed: frozenset[str], wanted: str) -> bool:
    return ALL in allowed or wanted in allowed


def _matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith(ALL) else path == pattern


def _rule(rule: Mapping[str, Any]) -> _Rule:
    return _Rule(
        verbs=frozenset(rule.get("verbs") or ()),
        groups=frozenset(rule.get("apiGroups") or ()),
        resources=frozenset(rule.get("resources") or ()),
        names=frozenset(rule.get("resourceNames") or ()),
        paths=tuple(rule.get("nonResourceURLs") or ()),
    )


def _grant(binding: Mapping[str, Any], rules: Mapping[tuple[str, str, str], tuple[_Rule, ...]]) -> _Grant:
    kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
    namespace = binding["metadata"].get("namespace", "") if binding["kind"] == "RoleBinding" else ""
    role = rules.get((kind, namespace if kind == "Role" else "", name))
    if role is None:
        reason = f"there is no {kind} {name} in the given roles"
        raise Malformed(f"{binding['kind']} {binding['metadata']['name']}", "roleRef.name", reason)
    subjects = list(binding.get("subjects") or ())
    users = {one["name"] for one in subjects if one["kind"] == "User"} | {
        f"system:serviceaccount:{one.get('namespace', namespace)}:{one['name']}"
        for one in subjects
        if one["kind"] == "ServiceAccount"
    }
    groups = {one["name"] for one in subjects if one["kind"] == "Group"}
    return _Grant(frozenset(users), frozenset(groups), namespace, role)
