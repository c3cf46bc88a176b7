"""What held devices drew when they were first seen to draw, so that it goes on being charged. Source: CTR-3.

Kept only for pools whose slices changed while their devices were held: until then the slices say it. Of a
pool the newest complete generation counts, as it does for decisions; what is said by slices that are still
coming in was never allocated from.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.state.devices.encoding.block import Block
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.pools.counters import Finer, PoolCounters

Drawn = Mapping[str, Mapping[str, int]]
"""Counter set -> counter -> billionths"""

NOTHING: Mapping[str, Drawn] = MappingProxyType({})


class RetainedDraws:
    """Held device -> what it drew. Of this process only: no server tells what is no longer there."""

    def __init__(self) -> None:
        self._of_pool: dict[PoolID, dict[str, Drawn]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_pool)

    def of(self, pool: PoolID) -> Mapping[str, Drawn]:
        """Device -> what is remembered of it. Not to be changed by the caller."""
        return self._of_pool.get(pool, NOTHING)

    def pools(self) -> Collection[PoolID]:
        """Those of which anything is remembered."""
        return self._of_pool.keys()

    def fork(self) -> "RetainedDraws":
        """The same, to be changed by somebody else."""
        other = RetainedDraws()
        other._of_pool = {pool: dict(drawn) for pool, drawn in self._of_pool.items()}
        return other

    def put(self, device: DeviceID, drawn: Drawn) -> None:
        """Remember what another process saw."""
        self._of_pool.setdefault(device.pool_id, {})[device.device] = drawn

    def retain(
        self, pool: PoolID, members: Collection[Block], held: Iterable[str], vocabulary: Vocabulary
    ) -> None:
        """Remember what the held devices of a pool draw, before its slices change. What is known stays."""
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
        """Forget devices that nobody holds any more."""
        for device in devices:
            of_pool = self._of_pool.get(device.pool_id)
            if of_pool is not None and of_pool.pop(device.device, None) is not None and not of_pool:
                del self._of_pool[device.pool_id]


def finer_than(counters: PoolCounters, retained: Mapping[str, Drawn]) -> Finer:
    """What is remembered of a pool, where it is no whole units of its counters."""
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
    """The slices of the newest generation of which all are there; empty if there is none."""
    for generation in sorted({block.generation for block in members}, reverse=True):
        peers = sorted(
            (block for block in members if block.generation == generation),
            key=lambda block: block.slice.metadata.name.encode(),
        )
        # Slices may disagree on how many there are: the first by name counts, as for decisions.
        if len(peers) == peers[0].slice.spec.pool.resource_slice_count:
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
