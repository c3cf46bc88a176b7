"""PodGroups and Workloads of scheduling.k8s.io/v1alpha2, the version of 1.36: two fields have another shape.

- `disruptionMode: Pod` or `PodGroup` is now `{single: {}}` or `{all: {}}`.
- `podGroupTemplateRef.workload`, with `workloadName` and `podGroupTemplateName`, is now `workloadRef` with
  `workloadName` and `templateName`.

Fields that v1alpha2 does not have stay where they are. Validation rejects what is invalid later.
"""

from collections.abc import Sequence
from typing import Any

from reconciler.api.versions.shapes import Change, Json, each, inside, mapping

V1ALPHA2 = "scheduling.k8s.io/v1alpha2"
_MODES: Sequence[tuple[Any, Any]] = (("Pod", {"single": {}}), ("PodGroup", {"all": {}}))


def _with_mode(modes: Sequence[tuple[Any, Any]]) -> Change:
    def changed(holder: Json) -> Json:
        found = next((new for old, new in modes if holder.get("disruptionMode") == old), None)
        return {**holder, "disruptionMode": found} if found is not None else holder

    return changed


_mode_to_current = _with_mode(_MODES)
_mode_to_v1alpha2 = _with_mode([(new, old) for old, new in _MODES])


def _spec_to_current(spec: Json) -> Json:
    spec = dict(_mode_to_current(spec))
    if (template := spec.pop("podGroupTemplateRef", None)) is not None:
        workload = mapping(mapping(template).get("workload"))
        names = {"workloadName": "workloadName", "podGroupTemplateName": "templateName"}
        spec["workloadRef"] = {new: workload[old] for old, new in names.items() if old in workload}
    return spec


def _spec_to_v1alpha2(spec: Json) -> Json:
    spec = dict(_mode_to_v1alpha2(spec))
    if (template := spec.pop("workloadRef", None)) is not None:
        names = {"workloadName": "workloadName", "templateName": "podGroupTemplateName"}
        known = mapping(template)
        workload = {new: known[old] for old, new in names.items() if old in known}
        spec["podGroupTemplateRef"] = {"workload": workload}
    return spec


to_current = inside(("spec",), _spec_to_current)
"""A PodGroup of v1alpha2 in the shape of v1beta1"""
to_v1alpha2 = inside(("spec",), _spec_to_v1alpha2)
"""The reverse"""
workload_to_current = inside(("spec",), each("podGroupTemplates", _mode_to_current))
"""A Workload of v1alpha2 in the shape of v1beta1"""
workload_to_v1alpha2 = inside(("spec",), each("podGroupTemplates", _mode_to_v1alpha2))
"""The reverse"""
