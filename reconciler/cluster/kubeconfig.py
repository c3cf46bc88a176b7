"""Kubeconfig files, merged as kubectl merges them. Reads files only: no plugin runs, nothing is sent.

The client library has a reader of its own, which takes `current-context` from the last file and resolves the
certificate of a user relative to the file of the cluster. Source: client-go, `ClientConfigLoadingRules`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

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


def places(kubeconfig: str | None) -> tuple[str, ...]:
    """The files to read, in order: the named one, or those of KUBECONFIG, or ~/.kube/config."""
    if kubeconfig is not None:
        return (str(Path(kubeconfig).expanduser()),)
    listed = tuple(place for place in os.environ.get("KUBECONFIG", "").split(os.pathsep) if place)
    return listed or (str(Path.home() / ".kube" / "config"),)


def merge(files: Sequence[str]) -> Kubeconfig:
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
        raise _unusable(file, " ".join(str(exc).split())) from exc
    if found is None:  # an empty file
        return {}
    if not isinstance(found, dict):
        raise _unusable(file, "it is not a map")
    if not isinstance(found.get("current-context") or "", str):
        raise _unusable(file, "current-context is not a string")
    return found


def _entries(file: str, section: str, listed: Any) -> Iterator[dict[str, Any]]:
    """The entries of a list, checked."""
    if not isinstance(listed or [], list):
        raise _unusable(file, f"{section} is not a list")
    names = set()
    for one in listed or []:
        field = SECTIONS[section]
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise _unusable(file, f"an entry of {section} has no name")
        if not isinstance(one.get(field) or {}, dict):
            raise _unusable(file, f"{field} of {one['name']} is not a map")
        if one["name"] in names:
            raise _unusable(file, f"{section} has {one['name']} twice")
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


def _unusable(file: str, why: str) -> Rejected:
    remedy = "fix it, or name another one with --kubeconfig or KUBECONFIG, or a server with --server"
    return Rejected(f"cannot reach a cluster: {file}: {why.rstrip('.')}; {remedy}")
