"""Extended resources that claims provide on nodes that do not offer them. Source: EXT-1."""

from collections.abc import Mapping

from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Pod
from reconciler.state.nodes.demand import demand

_IMPLICIT = "deviceclass.resource.kubernetes.io/"


def backed(classes: Mapping[str, DeviceClass], pod: Pod) -> frozenset[str]:
    """Resources of a pod that kube-scheduler turns into claims if a node does not offer them (EXT-1)."""
    extended = [name for name in demand(pod) if "/" in name]
    if not extended:
        return frozenset()
    names = {found.spec.extended_resource_name for found in classes.values()}
    return frozenset(
        name
        for name in extended
        if name in names or (name.startswith(_IMPLICIT) and name.removeprefix(_IMPLICIT) in classes)
    )
