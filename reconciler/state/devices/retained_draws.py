"""What held devices drew before their slices changed. It stays charged while they are held. Source: CTR-3.

Only pools whose slices changed while devices were held need this; otherwise the slices say what is drawn. As
for decisions, the newest complete generation of a pool counts: nothing was allocated from an incomplete one.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.state.devices.counters import Finer, PoolCounters
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.forking import Forkable

Drawn = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> billionths"""

NOTHING: Mapping[str, Drawn] = MappingProxyType({})


class RetainedDraws(Forkable):
    """Held device -> what it drew. Only this process knows it: the server no longer has the old slices."""

    def __init__(self) -> None:
        self._of_pool: dict[PoolID, dict[str, Drawn]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_pool)

    def of(self, pool: PoolID) -> Mapping[str, Drawn]:
        """Device -> retained draw. Callers must not change it."""
        return self._of_pool.get(pool, NOTHING)

    def pools(self) -> Collection[PoolID]:
        """Pools with retained draws."""
        return self._of_pool.keys()

    def put(self, device: DeviceID, drawn: Drawn) -> None:
        """Set the draw of a device, as another process recorded it."""
        self._of_pool.setdefault(device.pool_id, {})[device.device] = drawn

    def retain(
        self, pool: PoolID, members: Collection[Block], held: Iterable[str], vocabulary: Vocabulary
    ) -> None:
        """Retain what the held devices of a pool draw, before its slices change. Known draws stay."""
        known = self._of_pool.get(pool, NOTHING)
        unknown = [name for name in held if name not in known]
        if not unknown:
            return
        drawing = [block for block in newest_complete(members) if block.sets.size]
        read: dict[tuple[bytes, bytes], Drawn] = {}  # equal draws are one object
        for name in unknown if drawing else ():
            for block in drawing:
                for row in block.named.rows_of(name)[:1]:
                    key = (block.sets[row].tobytes(), block.draws[row].tobytes())
                    if key not in read:
                        read[key] = _drawn(block, row, vocabulary)
                    if read[key]:
                        self._of_pool.setdefault(pool, {}).setdefault(name, read[key])

    def release(self, devices: Iterable[DeviceID]) -> None:
        """Drop devices that no claim holds any more."""
        for device in devices:
            of_pool = self._of_pool.get(device.pool_id)
            if of_pool is not None and of_pool.pop(device.device, None) is not None and not of_pool:
                del self._of_pool[device.pool_id]


def finer_than(counters: PoolCounters, retained: Mapping[str, Drawn]) -> Finer:
    """The retained amounts of a pool that are not whole units of its counters."""
    found: dict[str, dict[str, set[int]]] = {}
    for drawn in {id(drawn): drawn for drawn in retained.values()}.values():
        for columns in counters.sets:
            amounts = drawn.get(columns.id.name, {})
            for name, unit in zip(columns.counters, columns.units, strict=True):
                if name in amounts and amounts[name] % unit:
                    found.setdefault(columns.id.name, {}).setdefault(name, set()).add(amounts[name])
    return {
        set_: {name: frozenset(amounts) for name, amounts in of_set.items()} for set_, of_set in found.items()
    }


def newest_complete(members: Collection[Block]) -> list[Block]:
    """The slices of the newest complete generation; empty if there is none."""
    for generation in sorted({block.generation for block in members}, reverse=True):
        peers = sorted(
            (block for block in members if block.generation == generation),
            key=lambda block: block.name.encode(),
        )
        if {block.slice_count for block in peers} == {len(peers)}:
            return peers
    return []


def _drawn(block: Block, row: int, vocabulary: Vocabulary) -> Drawn:
    found: dict[str, dict[str, int]] = {}
    for set_, draw in zip(block.sets[row].tolist(), block.draws[row].tolist(), strict=True):
        if set_ >= 0:
            amounts = found.setdefault(vocabulary.sets.values[set_], {})
            for counter, nanos in vocabulary.draws.values[draw]:
                amounts[counter] = amounts.get(counter, 0) + nanos
    return found
