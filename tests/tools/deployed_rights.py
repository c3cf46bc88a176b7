"""The roles that `deploy` gives, and how the process runs there."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from reconciler.embedded.accounts import AccessRequest, Account, Roles, service_account
from reconciler.settings import Settings
from tests.tools.checkout import ROOT
from tests.tools.tuned import tuned

DEPLOY = ROOT / "deploy"
NAMESPACE = NAME = "dra-reconciler"
ACCOUNT = service_account(NAMESPACE, NAME)
ACCOUNTS = {"allocate": ACCOUNT, "shadow": service_account(NAMESPACE, f"{NAME}-shadow")}
"""By mode. The overlay for `shadow` adds its suffix to the name."""
COMPONENTS = {
    "evict": "rebalance",
    "ask first": "eviction-requests",
    "make templates": "templates",
    "answer Kueue": "kueue",
    "request nodes": "provisioning",
}
"""What a process may do besides -> the folder below `components` with a role for that"""
ADVISE = "advise"
"""What shows plans may do besides: as `evict`, but it only reads, as the chart binds that role for it"""
ROLE_KINDS = ("ClusterRole", "Role")


class Right(NamedTuple):
    """One verb on one resource, as a rule of a role gives it."""

    verb: str
    group: str
    resource: str
    name: str = ""
    """The one object that the rule names; empty for all"""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group}".rstrip(".") + f" {self.name}".rstrip()


def documents(*folders: str) -> list[Any]:
    """Every API object of folders below `deploy`; kustomizations are none."""
    paths = [path for folder in folders for path in sorted((DEPLOY / folder).glob("*.yaml"))]
    found = [one for path in paths for one in _read(path)]
    return [one for one in found if one["kind"] not in ("Kustomization", "Component")]


@cache
def _read(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def policies() -> list[Any]:
    """What restricts our account, and what changes objects in labelled namespaces; with their bindings."""
    return [one for one in documents("base", "admission") if "admission" in one["apiVersion"]]


@cache
def settings() -> Settings:
    """What the environment of the deployed container says."""
    (deployment,) = (one for one in documents("base") if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    prefix = "DRA_RECONCILER_"
    named = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    fields: dict[str, Any] = {
        name.removeprefix(prefix).lower(): value for name, value in named.items() if name.startswith(prefix)
    }
    flags = [argument for argument in container["args"] if argument.startswith("--")]
    fields |= {flag.removeprefix("--").replace("-", "_"): True for flag in flags}
    return tuned(**fields)


def bound(mode: str) -> list[Any]:
    """The objects of RBAC for a mode. The overlay for `shadow` replaces one role and drops others."""
    base = [one for one in documents("base") if one["apiVersion"].startswith("rbac.")]
    if mode in (*COMPONENTS, ADVISE):
        return [*base, *(of_component("evict") if mode == "ask first" else ()), *of_component(mode)]
    if mode != "shadow":
        return base
    replaced = {
        one["metadata"]["name"]: one for one in documents("overlays/shadow") if one["kind"] == "ClusterRole"
    }
    kept = [one for one in base if one["kind"] not in ("Role", "RoleBinding")]
    ours = {"kind": "ServiceAccount", "name": f"{NAME}-shadow", "namespace": NAMESPACE}
    found = [
        replaced.get(one["metadata"]["name"], one) if one["kind"] == "ClusterRole" else one for one in kept
    ]
    return [one | ({"subjects": [ours]} if "subjects" in one else {}) for one in found]


class Granted:
    """What our account may do in a mode, by roles as `deploy` has them."""

    def __init__(
        self, objects: list[Any], account: Account = ACCOUNT, *, needed: list[Any] | None = None
    ) -> None:
        """`needed` are the roles of which every right must be used in this mode; all without it."""
        self._roles = Roles.read(objects)
        self._account = account
        self.rights = frozenset(_rights(objects if needed is None else needed))

    def allows(self, asked: AccessRequest) -> bool:
        """As the API server would judge it; what serves to discover is for everybody."""
        return _is_open(asked) or self._roles.allows(self._account, asked)


@cache
def granted(mode: str) -> Granted:
    """What `deploy` gives in a mode. What a component adds is all needed; the base is for other modes."""
    needed = of_component(mode) if mode in (*COMPONENTS, ADVISE) else None
    return Granted(bound(mode), ACCOUNTS.get(mode, ACCOUNT), needed=needed)


def of_component(mode: str) -> list[Any]:
    """The objects of RBAC that a component adds."""
    if mode != ADVISE:
        return documents(f"components/{COMPONENTS[mode]}")
    of_cluster = [one for one in of_component("evict") if one["kind"].startswith("Cluster")]
    return [one | {"rules": _reading(one)} if "rules" in one else one for one in of_cluster]


def _reading(role: Any) -> list[Any]:
    return [rule for rule in role["rules"] if set(rule["verbs"]) <= {"list", "watch"}]


def modes_of(settings: Settings) -> tuple[str, ...]:
    """Modes whose rights a process has, by its settings; with advice by default, those it may be given."""
    wanted = {
        "evict": "evict" in (settings.preemption, settings.rebalance),
        "ask first": bool(settings.eviction_request_seconds),
        "make templates": settings.make_templates,
        "answer Kueue": bool(settings.kueue_check),
        "request nodes": bool(settings.provisioning_requests),
    }
    found = tuple(mode for mode in COMPONENTS if wanted[mode]) or (settings.mode,)
    advises = settings.mode != "shadow" and "advise" in (settings.preemption, settings.rebalance)
    return (*found, ADVISE) if advises and not wanted["evict"] else found


def modes_by(roles: Roles, account: Account) -> tuple[str, ...]:
    """Modes whose rights an account of ours has, by the roles of a server; empty if it is not ours."""
    mode = next((mode for mode, ours in ACCOUNTS.items() if ours == account), None)
    if mode is None:
        return ()
    found = [
        one
        for one in (*COMPONENTS, ADVISE)
        if all(_allows(roles, account, right) for right in granted(one).rights)
    ]
    if "evict" in found:
        found.remove(ADVISE)
    return (mode, ADVISE) if found == [ADVISE] else tuple(found) or (mode,)


def _allows(roles: Roles, account: Account, asked: Right) -> bool:
    namespace = NAMESPACE if asked.name else ""
    return roles.allows(
        account, AccessRequest(asked.verb, asked.group, asked.resource, namespace, asked.name)
    )


def right(asked: AccessRequest) -> Right:
    """The right that a request takes. Rules name only ConfigMaps."""
    return Right(
        asked.verb, asked.group, asked.resource, asked.name if asked.resource == "configmaps" else ""
    )


def _rights(objects: list[Any]) -> Iterator[Right]:
    for role in objects:
        for rule in role.get("rules", ()) if role["kind"] in ROLE_KINDS else ():
            parts = (rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""]))
            yield from (Right(*one) for one in product(*parts))


def _is_open(asked: AccessRequest) -> bool:
    top = asked.path.strip("/").split("/")[0]
    of_itself = asked.verb == "create" and asked.resource == "selfsubjectaccessreviews"
    return of_itself or (asked.verb == "get" and top in ("api", "apis", "version"))
