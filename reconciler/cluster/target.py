"""Which cluster options, environment and kubeconfig files choose, and as whom. Reads files only; sends
nothing.

Kubeconfig files are merged as kubectl merges them. The client library has a reader of its own, which
takes `current-context` from the last file and resolves the certificate of a user relative to the file of
the cluster. Source: client-go, `ClientConfigLoadingRules` and `ImpersonationConfig`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from os import environ
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from msgspec import Struct

from reconciler.errors import Rejected

SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""List of a kubeconfig -> the field of its entries that holds the values"""
_PATHS = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}
"""Fields with a path, relative to the folder of the file"""


class Kubeconfig(Struct, frozen=True):
    """All files together."""

    value: dict[str, Any]
    """`clusters`, `contexts`, `users`, `current-context`; all paths are absolute"""
    files: tuple[str, ...]
    """The files that exist, as they were named"""
    originals: tuple[dict[str, Any], ...]
    """What each file holds. The tokens of an `auth-provider` are shared with `value`."""

    @property
    def empty(self) -> bool:
        """Whether no file says anything about a cluster, as if there were none."""
        return not any(self.value[section] for section in SECTIONS) and not self.value["current-context"]

    def entry(self, section: str, name: str) -> dict[str, Any] | None:
        """The values of an entry; None if no file has it."""
        field = SECTIONS[section]
        return next((one.get(field) or {} for one in self.value[section] if one["name"] == name), None)

    def save(self, _changed: object = None) -> None:
        """Write the files whose tokens were renewed: a provider may accept a refresh token only once."""
        for file, original in zip(self.files, self.originals, strict=True):
            if _read(file) != original:
                Path(file).write_text(yaml.safe_dump(original, default_flow_style=False))


def kubeconfig_places(kubeconfig: str | None) -> tuple[str, ...]:
    """The files to read, in order: the named one, or those of KUBECONFIG, or ~/.kube/config."""
    if kubeconfig is not None:
        return (str(Path(kubeconfig).expanduser()),)
    listed = tuple(place for place in os.environ.get("KUBECONFIG", "").split(os.pathsep) if place)
    return listed or (str(Path.home() / ".kube" / "config"),)


def merge_kubeconfigs(files: Sequence[str]) -> Kubeconfig:
    """Merge the files that exist: of each name, and of `current-context`, the first counts as a whole.

    Raises Rejected for a file that cannot be read or is no kubeconfig, and names it.
    """
    found = tuple(file for file in files if Path(file).exists())
    originals = tuple(map(_read, found))
    value: dict[str, Any] = {section: [] for section in SECTIONS}
    for section in SECTIONS:
        names: set[str] = set()
        for file, original in zip(found, originals, strict=True):
            entries = list(_entries(file, section, original.get(section)))
            fresh = [one for one in entries if one["name"] not in names]
            value[section] += [_absolute(section, one, Path(file).parent.absolute()) for one in fresh]
            names |= {one["name"] for one in fresh}
    value["current-context"] = next(filter(None, (one.get("current-context") for one in originals)), "")
    return Kubeconfig(value, found, originals)


def _read(file: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as exc:
        raise _unusable_file(file, " ".join(str(exc).split())) from exc
    if found is None:  # an empty file
        return {}
    if not isinstance(found, dict):
        raise _unusable_file(file, "it is not a map")
    if not isinstance(found.get("current-context") or "", str):
        raise _unusable_file(file, "current-context is not a string")
    return found


def _entries(file: str, section: str, listed: Any) -> Iterator[dict[str, Any]]:
    """The entries of a list, checked."""
    if not isinstance(listed or [], list):
        raise _unusable_file(file, f"{section} is not a list")
    names = set()
    for one in listed or []:
        field = SECTIONS[section]
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise _unusable_file(file, f"an entry of {section} has no name")
        if not isinstance(one.get(field) or {}, dict):
            raise _unusable_file(file, f"{field} of {one['name']} is not a map")
        if one["name"] in names:
            raise _unusable_file(file, f"{section} has {one['name']} twice")
        names.add(one["name"])
        yield one


def _absolute(section: str, entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A copy of an entry with absolute paths, which shares the tokens of an `auth-provider`."""
    field = SECTIONS[section]
    given = entry.get(field) or {}
    values = {key: one if key == "auth-provider" else deepcopy(one) for key, one in given.items()}
    for name in _paths(section, values):
        values[name] = str(folder / values[name])
    command = (values.get("exec") or {}).get("command")
    if isinstance(command, str) and os.sep in command:  # others are found on the PATH
        values["exec"]["command"] = os.path.normpath(folder / command)
    return {**entry, field: values}


def _paths(section: str, values: dict[str, Any]) -> Iterable[str]:
    return [name for name in _PATHS.get(section, ()) if isinstance(values.get(name), str) and values[name]]


def _unusable_file(file: str, why: str) -> Rejected:
    remedy = "fix it, or name another one with --kubeconfig or KUBECONFIG, or a server with --server"
    return Rejected(f"cannot reach a cluster: {file}: {why.rstrip('.')}; {remedy}")


IMPERSONATED_USER = "Impersonate-User"
_PRINTABLE = re.compile(r"[\x21-\x7e][\x20-\x7e]*").fullmatch
_TOKEN = "!#$&'*+-.^_`|~"
"""What the name of a header may have besides letters and digits; `%` escapes the rest"""


def impersonation_headers(user: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    """Headers by which the server judges requests as those of `as`; empty if an entry of `users` has none.

    The server decides whether the user may do so. Raises Rejected for values that no header can carry, and
    for groups, a uid or extra fields without `as`: requests would be sent with the user's own rights.
    """
    found = list(_named(user, values))
    if found and found[0][0] != IMPERSONATED_USER:
        raise _unusable_user(user, "as is not set, although other fields say whom to act as")
    return found


def _named(user: str, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for field, header in (("as", IMPERSONATED_USER), ("as-uid", "Impersonate-Uid")):
        if values.get(field):
            yield header, _text(user, field, values[field])
    for group in _texts(user, "as-groups", values.get("as-groups")):
        yield "Impersonate-Group", group
    extra = values.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise _unusable_user(user, "as-user-extra is not a map")
    for key, given in extra.items():
        for one in _texts(user, f"as-user-extra.{key}", given):
            yield f"Impersonate-Extra-{quote(str(key), safe=_TOKEN)}", one


def _texts(user: str, field: str, given: Any) -> list[str]:
    if not isinstance(given or [], list):
        raise _unusable_user(user, f"{field} is not a list")
    return [_text(user, field, one) for one in given or []]


def _text(user: str, field: str, given: Any) -> str:
    if not isinstance(given, str):
        raise _unusable_user(user, f"{field} is not text")
    if not _PRINTABLE(given):
        raise _unusable_user(user, f"{field}: {given!r} is empty or not printable ASCII")
    return given


def _unusable_user(user: str, why: str) -> Rejected:
    return Rejected(
        f"cannot reach a cluster: user {user} of the kubeconfig: {why}; fix it, or use another user"
    )


DEFAULT_NAMESPACE = "default"
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The namespace of the pod that this process runs in"""
_OTHERWISE = "set a working one with --kubeconfig or KUBECONFIG, or a server with --server"


class Target(Struct, frozen=True):
    """A cluster: a plain URL, a context of a kubeconfig, or the cluster that this process runs in."""

    server: str
    """Its URL"""
    context: str = ""
    """Empty without a kubeconfig"""
    cluster: str = ""
    """The entry of the kubeconfig with its address and its authority"""
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of names without one"""
    kubeconfig: Kubeconfig | None = None
    user: str = ""
    """The entry of the kubeconfig with the credentials; empty if it has none"""
    in_pod: bool = False
    """Whether the service account of the pod has the credentials"""

    def __str__(self) -> str:
        """Server and context, without a password."""
        address = without_password(self.server)
        if self.context:
            named = dict(self.impersonation()).get(IMPERSONATED_USER)
            return f"{address} (context {self.context}{f', as {named}' if named else ''})"
        return f"{address} (service account of this pod)" if self.in_pod else address

    def settings(self) -> dict[str, Any]:
        """The values of the kubeconfig about its server."""
        found = self.kubeconfig.entry("clusters", self.cluster) if self.kubeconfig else None
        return found or {}

    def impersonation(self) -> list[tuple[str, str]]:
        """Headers that name the account to act as, where the kubeconfig names one. Raises Rejected."""
        found = self.kubeconfig.entry("users", self.user) if self.kubeconfig else None
        return impersonation_headers(self.user, found or {})


def choose_target(*, server: str | None, kubeconfig: str | None, context: str | None) -> Target:
    """The cluster that the options choose, in kubectl's order. Raises Rejected if there is none.

    Without a server: the named kubeconfig, or KUBECONFIG, or ~/.kube/config, or the service account.
    """
    if server is not None:
        if not server.startswith(("http://", "https://")):
            raise Rejected(f"cannot reach a cluster: {server!r} is not an http or https URL")
        return Target(server.rstrip("/"))
    files = kubeconfig_places(kubeconfig)
    found = merge_kubeconfigs(files)
    if kubeconfig is not None and not found.files:
        raise Rejected(f"cannot reach a cluster: there is no kubeconfig at {kubeconfig}; {_OTHERWISE}")
    if found.empty and kubeconfig is None and context is None:
        return _of_pod(files)
    return _of_context(found, files, context)


def without_password(url: str) -> str:
    """The URL without user, password and query."""
    scheme, slashes, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _of_pod(files: tuple[str, ...]) -> Target:
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise Rejected(
            f"cannot reach a cluster: no kubeconfig at {', '.join(files)}, and not in a pod; {_OTHERWISE}"
        )
    try:
        namespace = POD_NAMESPACE.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        namespace = ""
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Target(server, namespace=namespace or DEFAULT_NAMESPACE, in_pod=True)


def _of_context(found: Kubeconfig, files: tuple[str, ...], context: str | None) -> Target:
    where = ", ".join(found.files or files)
    name = context or found.value["current-context"]
    if not name:
        raise Rejected(f"cannot reach a cluster: {where}: current-context is not set; {_OTHERWISE}")
    chosen = found.entry("contexts", name)
    if chosen is None:
        known = ", ".join(sorted(one["name"] for one in found.value["contexts"])) or "none"
        raise Rejected(
            f"cannot reach a cluster: {where}: there is no context {name}; contexts: {known}; {_OTHERWISE}"
        )
    cluster, user = chosen.get("cluster") or "", chosen.get("user") or ""
    settings = found.entry("clusters", cluster)
    if settings is None or (user and found.entry("users", user) is None):
        missing = f"cluster {cluster}" if settings is None else f"user {user}"
        raise Rejected(f"cannot reach a cluster: {where}: context {name} names {missing}, which is missing")
    server = str(settings.get("server") or "").rstrip("/")
    if not server:
        raise Rejected(f"cannot reach a cluster: {where}: cluster {cluster} has no server")
    if not user and server.startswith("https:"):
        raise Rejected(f"cannot reach a cluster: {where}: context {name} has no user")
    return Target(server, name, cluster, chosen.get("namespace") or DEFAULT_NAMESPACE, found, user)
