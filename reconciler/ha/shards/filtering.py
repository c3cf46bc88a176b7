"""Drops slices of other shards, so that their devices cannot be allocated.

Only whether their devices say `compatibleOnlyWith` is kept: it decides how all groups of a driver are
compared (GRP-12), and all shards must compare them alike.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.device_patterns import without_blanks
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.ha.shards.shard import Shard


def within(change: Change, shard: Shard) -> Change:
    """The change as a shard sees it: slices of other pools count as removed."""
    if shard.whole:
        return change
    match change:
        case Changed(kind=kind, object=ResourceSlice() as found) if not shard.owns(found.pool_id):
            return Removed(kind, found.key, stating=found.spec.driver if _states(found) else "")
        case Replaced(kind="ResourceSlice", objects=objects):
            return replace(
                change,
                objects=tuple(one for one in objects if not _is_foreign(one, shard)),
                stating=tuple((one.key.name, one.spec.driver) for one in _stating(objects, shard)),
            )
    return change


def _is_foreign(thing: ApiObject, shard: Shard) -> bool:
    return isinstance(thing, ResourceSlice) and not shard.owns(thing.pool_id)


def _stating(objects: Iterable[ApiObject], shard: Shard) -> Iterator[ResourceSlice]:
    """The slices of other shards whose devices say `compatibleOnlyWith`."""
    for thing in objects:
        if isinstance(thing, ResourceSlice) and _is_foreign(thing, shard) and _states(thing):
            yield thing


def _states(source: ResourceSlice) -> bool:
    return any(device.compatible_only_with is not None for device in without_blanks(source.spec.devices))
