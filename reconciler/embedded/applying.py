"""Server-side apply: where two managers disagree, and which fields go."""

import json
from typing import Any

from reconciler.api.validation.bodies import Refusal, bad_request, copy, decode_json, not_implemented
from reconciler.api.validation.fields import Field, WrongType
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded import managers
from reconciler.embedded.routing import Target
from reconciler.embedded.schemas import Decoded, known, model_of_kind

OTHERS = "before-first-apply"
"""The manager of what was written before managers were noted"""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = managers.Owner("kubectl")


def checked(target: Target, config: Any, *, newer: bool) -> Decoded:
    """A configuration that can be applied, and which keys it has twice. Raises a Refusal."""
    given = Field(config if isinstance(config, dict) else {})
    metadata, version, kind = given["metadata"], given["apiVersion"].text(), given["kind"].text()
    if (version, kind) != (str(target.served), target.kind.kind):
        shown = version if "/" in version else f"/{version}"
        raise bad_request(f"invalid object type: {shown}, Kind={kind}")
    if not metadata["name"].text():
        where = f"the name of the object ({target.name} based on URL)"
        raise bad_request(f"{where} was undeterminable: name must be provided")
    if metadata["managedFields"].items():
        raise bad_request("metadata.managedFields must be nil")
    model = model_of_kind(target.served, target.kind)
    if not model:
        raise not_implemented(
            f"server-side apply of {target.kind.kind} in {target.served} is not supported here: the types "
            "of its fields are not known; use kubectl apply without --server-side"
        )
    try:
        found = known(config, model, newer=newer)
        unknown = (why for why in found.wrong if why.startswith("unknown"))
        wrong = [f".{why.split(chr(34))[1]}: field not declared in schema" for why in unknown]
    except WrongType as exc:
        wrong = [f".{exc}"]
    if wrong:
        name = f"{metadata['namespace'].text()}/{metadata['name'].text()}"
        served = f"{target.served.group}/{target.served.version}, Kind={kind}"
        why = ", ".join(wrong)
        raise Refusal(500, "", f"failed to create typed patch object ({name}; {served}): {why}")
    return found


def applied(
    target: Target, shown: Object, config: Object, owner: managers.Owner, *, moment: str, force: bool
) -> Object:
    """The object with the configuration applied. Raises a 409 where another manager disagrees."""
    version = str(target.served)
    owners = managers.owners_of(shown["metadata"].get("managedFields", ()))
    if not owners:
        before = managers.Owner(OTHERS, target.subresource, version)
        owners = {
            before: managers.Owned(
                version, moment, managers.tree_of(managers.nodes_of(target, target.served, shown))
            )
        }
    wanted = _wanted(target, config)
    mine = owners.pop(owner, managers.Owned(version, moment, {}))
    result = copy(shown)
    for path, value in wanted.items():
        # A null field or an empty map says nothing about what is there.
        is_empty = value is None or value in ({}, [])
        if value is not managers.INNER and not (
            is_empty and path[-1][0] == "f" and _at(result, path) is not None
        ):
            _put(result, path, value)
    kept = managers.prefixes([*wanted, *(path for owned in owners.values() for path in owned.paths)])
    result = _without(target, result, mine, kept)
    changed = managers.changes_of(
        target, *(target.kind.upgrade(one, target.served) for one in (shown, result))
    )
    conflicts = [
        (other, owned, path)
        for other, owned in owners.items()
        for path in sorted(owned.paths & changed(owned.version).given)
    ]
    if owner == _KUBECTL:
        # kubectl may change what it applied without --server-side.
        own = _wanted(target, _last_applied(shown))
        conflicts = [one for one in conflicts if one[2] not in own]
        if _LAST_APPLIED in result["metadata"].get("annotations", {}):
            text = json.dumps(config, sort_keys=True, separators=(",", ":"))
            result["metadata"]["annotations"][_LAST_APPLIED] = f"{text}\n"
    if conflicts and not force:
        raise _conflict(conflicts)
    owners = {other: owned.without(changed(owned.version)) for other, owned in owners.items()}
    owners[owner] = managers.Owned(version, moment, managers.tree_of(wanted))
    for key in ("uid", "resourceVersion", "name", "namespace"):
        if key in config["metadata"]:
            result["metadata"][key] = config["metadata"][key]
    result["metadata"]["managedFields"] = managers.managed_fields(owners)
    return result


def after_applied_create(target: Target, owner: managers.Owner, config: Object, moment: str) -> list[Object]:
    """`managedFields` of an object that an apply created."""
    return managers.managed_fields(
        {owner: managers.Owned(str(target.served), moment, managers.tree_of(_wanted(target, config)))}
    )


def _wanted(target: Target, config: Object) -> dict[managers.Path, Any]:
    """What a configuration owns: values, and entries of lists."""
    found = managers.nodes_of(target, target.served, config)
    return {path: value for path, value in found.items() if value is not managers.INNER or path[-1][0] == "k"}


def _last_applied(shown: Object) -> Object:
    annotation = shown["metadata"].get("annotations", {}).get(_LAST_APPLIED, "{}")
    try:
        found = decode_json(annotation.encode())
    except Refusal:
        return {}
    return found if isinstance(found, dict) else {}


def _without(target: Target, result: Object, mine: managers.Owned, kept: set[managers.Path]) -> Object:
    """The object without what its manager applied before and nobody wants now."""
    left = mine.paths - kept
    group, _, of = mine.version.rpartition("/")
    before = GroupVersion(group, of)
    if not left:
        return result
    if before != target.served:
        result = target.kind.downgrade(target.kind.upgrade(result, target.served), before)
    for path in sorted(left):
        _remove(result, path)
    if before != target.served:
        result = target.kind.downgrade(target.kind.upgrade(result, before), target.served)
    return result


def _entry(holder: Any, name: str, step: str) -> Any:
    """An entry of a list by its step; None if it is not there."""
    return next((one for one in holder if managers.step_to(name, one) == step), None)


def _at(holder: Any, path: managers.Path) -> Any:
    name = ""
    for step in path:
        if isinstance(holder, list):
            holder = _entry(holder, name, step)
        elif isinstance(holder, dict):
            holder, name = holder.get(step[2:]), step[2:]
        else:
            return None
    return holder


def _put(holder: Any, path: managers.Path, value: Any) -> None:
    name = ""
    for at, step in enumerate(path[:-1]):
        if isinstance(holder, list):
            found = _entry(holder, name, step)
            if found is None:
                holder.append(found := json.loads(step[2:]))
            holder = found
        else:
            name = step[2:]
            empty: Any = {} if path[at + 1][0] == "f" else []
            if not isinstance(holder.get(name), type(empty)):
                holder[name] = empty
            holder = holder[name]
    if not isinstance(holder, list):
        holder[path[-1][2:]] = value
    elif (found := _entry(holder, name, path[-1])) is None:
        holder.append(value)
    else:
        holder[holder.index(found)] = value


def _remove(holder: Any, path: managers.Path, name: str = "") -> None:
    """Remove what is at a path, and what is empty then."""
    step, rest = path[0], path[1:]
    if isinstance(holder, list):
        if (one := _entry(holder, name, step)) is not None:
            if rest:
                _remove(one, rest)
            else:
                holder.remove(one)
    elif isinstance(holder, dict) and (field := step[2:]) in holder:
        if rest:
            _remove(holder[field], rest, field)
        if not rest or holder[field] in ({}, []):
            del holder[field]


def _conflict(conflicts: list[tuple[managers.Owner, managers.Owned, managers.Path]]) -> Refusal:
    by_manager: dict[str, list[str]] = {}
    causes = []
    for owner, owned, path in conflicts:
        with_part = f' with subresource "{owner.subresource}"' if owner.subresource else ""
        using = f" using {owned.version}" if owner.applied else ""
        whom = f'conflict with "{owner.manager}"{with_part}{using}'
        field = "".join(map(_text, path))
        by_manager.setdefault(whom, []).append(field)
        causes.append({"reason": "FieldManagerConflict", "message": whom, "field": field})
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for whom, fields in by_manager.items()
            for line in (f"{whom.replace('conflict', 'conflicts', 1)}:", *(f"- {field}" for field in fields))
        ]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Refusal(409, "Conflict", f"Apply failed with {text}", details={"causes": causes})


def _text(step: str) -> str:
    if step[0] == "f":
        return f".{step[2:]}"
    if step[0] == "v":
        return f"[={step[2:]}]"
    return f"[{','.join(f'{key}={json.dumps(value)}' for key, value in json.loads(step[2:]).items())}]"
