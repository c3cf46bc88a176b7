"""Leaves of the fleet what belongs to a shard: devices that are not seen cannot be given out."""

from dataclasses import replace

from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.ha.shards.shard import Shard


def within(change: Change, shard: Shard) -> Change:
    """The change as far as it regards a shard: slices of other pools are as good as gone."""
    if shard.whole:
        return change
    match change:
        case Changed(kind=kind, object=ResourceSlice() as found) if not shard.owns(found.pool_id):
            return Removed(kind, found.key)
        case Replaced(kind="ResourceSlice", objects=objects):
            return replace(change, objects=tuple(one for one in objects if _is_inside(one, shard)))
    return change


def _is_inside(thing: ApiObject, shard: Shard) -> bool:
    return not isinstance(thing, ResourceSlice) or shard.owns(thing.pool_id)
