"""The schemas of served kinds: Kubernetes' types, and what the declaration of each kind adds to them."""

from collections.abc import Iterable, Mapping

from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.strategic_merge import Merge
from reconciler.api.validation.strategic_merge import Schema as MergeRules
from reconciler.embedded.openapi.models import REF, field_models, model_of, reference, schema_of

GVK = "x-kubernetes-group-version-kind"
ANY_FIELDS = "x-kubernetes-preserve-unknown-fields"
Served = tuple[GroupVersion, ServedKind]

_METADATA = "V1ObjectMeta"
_UNKNOWN: Object = {
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REF + reference(_METADATA)},
    },
    ANY_FIELDS: True,
}
"""The schema of kinds that are not part of Kubernetes: every field is allowed."""


def definitions(served: Iterable[Served]) -> Mapping[str, Object]:
    """Schemas by name: those of the kinds, and of everything that they refer to. `served` has no doubles."""
    found: dict[str, Object] = {}
    for version, kind in served:
        model = _model(version, kind)
        name = model or f"{kind.kind}.{version.version}.{version.group}"
        if model:
            _add(found, model)
            _mark(found, model, kind.strategic)
        else:
            _add(found, _METADATA)
            found[name] = {**_UNKNOWN}
        if kind.description:
            found[name]["description"] = kind.description
        found[name].setdefault(GVK, []).append(group_version_kind(version, kind))
    return {reference(name): schema for name, schema in found.items()}


def group_version_kind(version: GroupVersion, kind: ServedKind) -> Object:
    """The value of the extension that connects schemas, operations and kinds."""
    return {"group": version.group, "version": version.version, "kind": kind.kind}


def _model(version: GroupVersion, kind: ServedKind) -> str:
    """The model of a kind: of this version, or else of another version of the same shape."""
    shape = kind.conversions.get(version)
    same = (other for other in kind.served if kind.conversions.get(other) is shape)
    return next(filter(None, (model_of(other, kind.kind) for other in (version, *same))), "")


def _add(found: dict[str, Object], model: str) -> None:
    if model in found:
        return
    schema = schema_of(model)
    found[model] = {**schema, "properties": dict(schema["properties"])}
    for other in field_models(model).values():
        _add(found, other)


def _mark(found: dict[str, Object], model: str, rules: MergeRules) -> None:
    """Note how strategic merge patches merge lists: kubectl apply makes its patches by these notes."""
    properties, models = found[model]["properties"], field_models(model)
    for name, rule in rules.items():
        inner: MergeRules = rule
        if isinstance(rule, Merge):
            key = {"x-kubernetes-patch-merge-key": rule.key} if rule.key else {}
            properties[name] = {**properties[name], "x-kubernetes-patch-strategy": "merge", **key}
            inner = rule.of
        if name in models:
            _mark(found, models[name], inner)
