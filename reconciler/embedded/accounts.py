"""Accounts with their bearer tokens and roles.

Source: Kubernetes' static token file, and rbac.authorization.k8s.io/v1; rules only allow.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.errors import Malformed

AUTHENTICATED = "system:authenticated"
_SERVICE_ACCOUNTS = "system:serviceaccounts"


class Account(Struct, frozen=True):
    """The sender of a request."""

    name: str
    groups: frozenset[str]


ANONYMOUS = Account("system:anonymous", frozenset({"system:unauthenticated"}))
"""The account of requests without a token"""


def account(name: str, *groups: str) -> Account:
    """An authenticated account; a service account is also in the groups of service accounts."""
    parts = service_account_parts(name)
    if parts is not None:
        groups = (*groups, _SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{parts[0]}")
    return Account(name, frozenset({AUTHENTICATED, *groups}))


def service_account_parts(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account whose account has this name; None for other accounts."""
    match name.split(":"):
        case ["system", "serviceaccount", namespace, own] if namespace and own:
            return namespace, own
    return None


def service_account(namespace: str, name: str) -> Account:
    """The account of a service account's pods."""
    return account(f"system:serviceaccount:{namespace}:{name}")


def read_tokens(text: str, *, source: str) -> Mapping[str, Account]:
    """Token -> account, from lines `token,user,uid[,"group,group"]`. Raises Malformed, never with a token."""
    found: dict[str, Account] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise Malformed(f"{source}:{number}", "", 'must be token,user,uid[,"group,group"]')
        groups = (part.strip() for part in (row[3] if len(row) > 3 else "").split(","))
        found[row[0].strip()] = account(row[1].strip(), *filter(None, groups))
    return found


ALL = "*"
_RBAC = "rbac.authorization.k8s.io"
_DELEGATOR = {
    "apiVersion": f"{_RBAC}/v1",
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
        found += [item for item in objects if str(item.get("apiVersion", "")).startswith(f"{_RBAC}/")]
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
