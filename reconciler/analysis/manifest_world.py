"""The state of manifests: a world to try things on, and the fleet of a what-if analysis."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, TypeVar

from reconciler.analysis.whatif.question import Gang, Unit
from reconciler.analysis.world import World, world_of
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.manifests.inferred_nodes import InferredNodes, bundle_objects, infer_nodes, supply_of
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Node, Pod, PodDisruptionBudget
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.plugins import kinds_of_plugins
from reconciler.state.nominations import Nomination


class Fleet(NamedTuple):
    """What is read of manifests or of a cluster."""

    nodes: InferredNodes
    objects: Iterable[ApiObject]
    """Without the nodes that are supposed"""
    machines: tuple[ApiObject, ...] = ()
    """Objects of plugins, such as devices"""
    held: tuple[Nomination, ...] = ()
    """Room that the leader of the cluster holds"""
    may_suppose: bool = True
    """Whether nodes without a Node object may be used"""

    def world(self, rules: Semantics) -> World:
        """The state to try things on."""
        world = world_of(self.objects, rules, supposed=self.nodes.supposed, may_suppose=self.may_suppose)
        for one in self.held:
            world.store.nominate(one)
            world.nodes.nominated.hold(one)
        return world


def fleet_in(bundle: Bundle, rules: Semantics) -> Fleet:
    """All of some manifests, with the claims that are made from the templates of pods."""
    claims, inferred = Claims(bundle, rules), infer_nodes(bundle.of(Node), bundle.of(ResourceSlice))
    objects: list[ApiObject] = [*inferred.described, *supply_of(bundle), *bundle.of(PodDisruptionBudget)]
    before = {pod.key: pod.metadata.uid for pod in bundle.of(Pod)}
    now = {pod.key: pod.metadata.uid for pod in claims.pods}
    objects += [_with_uids(claims.typed(key), before, now) for key in claims.entries]
    return Fleet(inferred, [*objects, *claims.pods])


def world_of_manifests(bundle: Bundle, rules: Semantics) -> World:
    """The state of manifests. Nothing that waits is placed first."""
    return fleet_in(bundle, rules).world(rules)


def _with_uids(
    claim: ResourceClaim, before: Mapping[ObjectKey, str], now: Mapping[ObjectKey, str]
) -> ResourceClaim:
    """A claim of manifests with the uids that its pods have here."""
    users = []
    for user in claim.status.reserved_for:
        key = ObjectKey(claim.key.namespace, user.name)
        same = user.resource == "pods" and key in now and before[key] in ("", user.uid)
        users.append(user.model_copy(update={"uid": now[key]}) if same else user)
    return claim.replacing("status", reserved_for=tuple(users))


T = TypeVar("T", bound=ApiObject)


def fleet_of_manifests(first: Bundle, rest: Bundle, more: Bundle, units: Iterable[Unit | Gang]) -> Fleet:
    """The fleet of a what-if analysis. `units` are those to place, `more` has what is assumed to exist."""
    objects = [
        *bundle_objects(first),
        *(one for one in bundle_objects(rest) if not isinstance(one, Node)),
        *more.of(ResourceSlice),
        *more.of(DeviceClass),
    ]
    pods = {unit.pod.key for unit in single(units) if unit.pod is not None}
    objects = [one for one in objects if not _is_question(one, pods)]
    slices = [one for one in objects if isinstance(one, ResourceSlice)]
    devices = last_of(one for bundle in (first, rest, more) for one in of_plugins(bundle))
    described = last_of([*first.of(Node), *rest.of(Node), *more.of(Node)])
    found = infer_nodes(described, slices, [one.key.name for one in devices])
    others = (one for one in objects if not isinstance(one, Node))
    return Fleet(found, [*found.described, *others], devices)


def of_plugins(bundle: Bundle) -> Iterator[ApiObject]:
    """The objects that plugins read."""
    return (one for one in bundle.objects() if type(one).__name__ in kinds_of_plugins())


def single(units: Iterable[Unit | Gang]) -> Iterator[Unit]:
    """The units, and those of gangs."""
    for unit in units:
        yield from unit.members if isinstance(unit, Gang) else (unit,)


def _is_question(obj: ApiObject, pods: Set[ObjectKey]) -> bool:
    """Objects to place are not part of the fleet; nor are other pending claims."""
    pending = isinstance(obj, ResourceClaim) and obj.allocation is None
    return pending or isinstance(obj, ResourceClaimTemplate) or (isinstance(obj, Pod) and obj.key in pods)


def last_of(objects: Iterable[T]) -> tuple[T, ...]:
    """The last object of each name."""
    return tuple({one.key: one for one in objects}.values())
