"""PodGroups and Workloads of scheduling.k8s.io/v1alpha2, the version of 1.36: two fields have another shape.

- `disruptionMode: Pod` or `PodGroup` is now `{single: {}}` or `{all: {}}`.
- `podGroupTemplateRef.workload`, with `workloadName` and `podGroupTemplateName`, is now `workloadRef` with
  `workloadName` and `templateName`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping

V1ALPHA2 = "scheduling.k8s.io/v1alpha2"
_MODES: Sequence[tuple[Any, Any]] = (("Pod", {"single": {}}), ("PodGroup", {"all": {}}))


def to_current(raw: Raw) -> dict[str, Any]:
    """A PodGroup of v1alpha2 in the shape of v1beta1. Validation rejects what is invalid later."""
    return _with_spec(raw, _spec_to_current)


def to_v1alpha2(raw: Raw) -> dict[str, Any]:
    """The reverse of `to_current`; fields that v1alpha2 does not have stay where they are."""
    return _with_spec(raw, _spec_to_v1alpha2)


def workload_to_current(raw: Raw) -> dict[str, Any]:
    """A Workload of v1alpha2 in the shape of v1beta1."""
    return _with_spec(raw, lambda spec: _with_templates(spec, _mode_to_current))


def workload_to_v1alpha2(raw: Raw) -> dict[str, Any]:
    """The reverse."""
    return _with_spec(raw, lambda spec: _with_templates(spec, _mode_to_v1alpha2))


def _spec_to_current(spec: dict[str, Any]) -> dict[str, Any]:
    spec = _mode_to_current(spec)
    if (template := spec.pop("podGroupTemplateRef", None)) is not None:
        workload = mapping(mapping(template).get("workload"))
        names = {"workloadName": "workloadName", "podGroupTemplateName": "templateName"}
        spec["workloadRef"] = {new: workload[old] for old, new in names.items() if old in workload}
    return spec


def _spec_to_v1alpha2(spec: dict[str, Any]) -> dict[str, Any]:
    spec = _mode_to_v1alpha2(spec)
    if (template := spec.pop("workloadRef", None)) is not None:
        names = {"workloadName": "workloadName", "templateName": "podGroupTemplateName"}
        known = mapping(template)
        workload = {new: known[old] for old, new in names.items() if old in known}
        spec["podGroupTemplateRef"] = {"workload": workload}
    return spec


def _mode_to_current(holder: dict[str, Any]) -> dict[str, Any]:
    return _with_mode(holder, _MODES)


def _mode_to_v1alpha2(holder: dict[str, Any]) -> dict[str, Any]:
    return _with_mode(holder, [(new, old) for old, new in _MODES])


def _with_mode(holder: dict[str, Any], modes: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    mode = holder.get("disruptionMode")
    found = next((new for old, new in modes if mode == old), None)
    return {**holder, "disruptionMode": found} if found is not None else dict(holder)


def _with_templates(
    spec: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    templates = spec.get("podGroupTemplates")
    if not isinstance(templates, list):
        return spec
    return {**spec, "podGroupTemplates": [change(one) if isinstance(one, dict) else one for one in templates]}


def _with_spec(raw: Raw, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    spec = raw.get("spec")
    return {**raw, "spec": change(spec)} if isinstance(spec, dict) else dict(raw)
