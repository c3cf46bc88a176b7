"""Drops slices of other shards, so that their devices cannot be allocated."""

from dataclasses import replace

from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.slices import ResourceSlice
from reconciler.ha.shards.shard import Shard


def within(change: Change, shard: Shard) -> Change:
    """The change as a shard sees it: slices of other pools count as removed."""
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
