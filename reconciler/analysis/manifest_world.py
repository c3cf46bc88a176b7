"""The state of manifests: their objects in the order in which a store needs them, and as a world."""

from collections.abc import Iterator, Mapping

from reconciler.analysis.world import World, world_of
from reconciler.api.manifests.bundle import Bundle, Claims, storage_of, with_own_uid
from reconciler.api.manifests.inferred_nodes import infer_nodes
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node, Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GROUPS
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice


def supply_of(bundle: Bundle) -> list[ApiObject]:
    """The objects of manifests but for nodes, claims and pods, in the order in which a store needs them."""
    kinds = (*GROUPS, Namespace, DeviceClass, DeviceTaintRule, ResourceSlice)
    return [*storage_of(bundle), *(one for kind in kinds for one in bundle.of(kind))]


def bundle_objects(bundle: Bundle) -> Iterator[ApiObject]:
    """All of them, with the nodes that the slices imply and a unique uid for each claim."""
    yield from supply_of(bundle)
    yield from infer_nodes(bundle.of(Node), bundle.of(ResourceSlice)).nodes
    yield from map(with_own_uid, bundle.of(ResourceClaim))
    yield from bundle.of(Pod)


def world_of_manifests(bundle: Bundle, rules: Semantics) -> World:
    """The state of manifests. Nothing that waits is placed first."""
    claims, inferred = Claims(bundle), infer_nodes(bundle.of(Node), bundle.of(ResourceSlice))
    objects: list[ApiObject] = [*inferred.described, *supply_of(bundle), *bundle.of(PodDisruptionBudget)]
    before = {pod.key: pod.metadata.uid for pod in bundle.of(Pod)}
    now = {pod.key: pod.metadata.uid for pod in claims.pods}
    objects += [_with_uids(claims.typed(key), before, now) for key in claims.entries]
    objects += claims.pods
    return world_of(objects, rules, supposed=inferred.supposed, may_suppose=True)


def _with_uids(
    claim: ResourceClaim, before: Mapping[ObjectKey, str], now: Mapping[ObjectKey, str]
) -> ResourceClaim:
    """A claim of manifests with the uids that its pods have here."""
    users = []
    for user in claim.status.reserved_for:
        key = ObjectKey(claim.key.namespace, user.name)
        same = user.resource == "pods" and key in now and before[key] in ("", user.uid)
        users.append(user.model_copy(update={"uid": now[key]}) if same else user)
    status = claim.status.model_copy(update={"reserved_for": tuple(users)})
    return claim.model_copy(update={"status": status})
