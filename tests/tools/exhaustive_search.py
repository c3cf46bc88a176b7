"""The search (SRCH-1 to SRCH-4) as specified: every choice in order, everything computed anew each time.

A state is the list of results so far. Nothing is cached, so nothing can leak.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import Answer, World
from tests.tools.builders import Object
from tests.tools.exclusive_twin import admitted
from tests.tools.naive_allocation import Device, Scene, constrained, fits, holds_together
from tests.tools.naive_rules import Amounts, Failure, applies

MAX_RESULTS = 32


class TooLarge(Exception):
    """The problem has too many choices to try them all."""


@dataclass(frozen=True)
class RequestOption:
    """One way to meet a request."""

    claim: int
    request: str
    sub: str
    wanted: Object
    listed: list[Device] | None
    """Mode All: all devices needed"""

    @property
    def name(self) -> str:
        return f"{self.request}/{self.sub}" if self.sub else self.request

    @property
    def count(self) -> int:
        return self.wanted["count"] if self.listed is None else len(self.listed)

    @property
    def admin(self) -> bool:
        return bool(self.wanted.get("adminAccess"))


class Result(NamedTuple):
    """A chosen device."""

    option: RequestOption
    device: Device
    consumed: Amounts


Results = tuple[Result, ...]
Slots = list[list[list[RequestOption]]]
"""claim -> request -> alternatives"""


def exhaustive(world: World, name: str = "n", *, limit: int = 20_000) -> Answer:
    """The answer for one node: devices of every claim, the error, or None. Raises TooLarge."""
    scene = Scene(world, name)
    try:
        slots = [_prepared(scene, at, claim) for at, claim in enumerate(world.claims)]
        found = _Walk(scene, slots, limit).solve(0, 0, ())
        if found is not None:
            _check_selectors(scene, found)
    except Failure as failure:
        return failure.reason
    if found is None:
        broken = any(pool.problem is Reason.INVALID_POOL for pool in scene.pools)
        return Reason.INVALID_POOL if broken else None
    return [
        [(r.option.name, "/".join(r.device.key)) for r in found if r.option.claim == at]
        for at in range(len(world.claims))
    ]


def _prepared(scene: Scene, at: int, claim: Object) -> list[list[RequestOption]]:
    """PREP-8, PREP-9."""
    prepared = []
    for request in claim["spec"]["devices"]["requests"]:
        ways = [("", request["exactly"])] if "exactly" in request else []
        ways += [(sub["name"], sub) for sub in request.get("firstAvailable", ())]
        prepared.append([_option(scene, at, request["name"], sub, wanted) for sub, wanted in ways])
    if sum(min(option.count for option in options) for options in prepared) > MAX_RESULTS:
        raise Failure(Reason.TOO_MANY_DEVICES)
    return prepared


def _option(scene: Scene, at: int, request: str, sub: str, wanted: Object) -> RequestOption:
    if wanted["allocationMode"] != "All":
        return RequestOption(at, request, sub, wanted, None)
    listed: list[Device] = []
    for pool in scene.pools:
        if pool.problem is not None:
            raise Failure(pool.problem)
        listed += [
            device
            for device in pool.devices
            if scene.selectable(wanted, device) and _large_enough(scene, wanted, device)
        ]
    return RequestOption(at, request, sub, wanted, listed)


def _large_enough(scene: Scene, wanted: Object, device: Device) -> bool:
    """PREP-8: the whole capacity counts, or by the older rules the remaining capacity."""
    if not scene.has("DRAConsumableCapacity"):
        return True
    consumed = scene.consumed(wanted, device)
    before = scene.held.shares.get(device.key, {}) if scene.world.rules.old else {}
    return consumed is not None and fits(device, consumed, before)


class _Walk:
    def __init__(self, scene: Scene, slots: Slots, limit: int) -> None:
        self.scene = scene
        self.slots = slots
        self.left = limit

    def solve(self, c: int, q: int, results: Results) -> Results | None:
        """The results from request q of claim c on."""
        if c == len(self.slots):
            return results
        if q == len(self.slots[c]):
            return self.solve(c + 1, 0, results)
        for option in self.slots[c][q]:
            mine = sum(r.option.claim == c for r in results)
            if option.count == 0 or mine + option.count > MAX_RESULTS:
                continue
            found = (
                self.pick(c, q, option, option.count, 0, results)
                if option.listed is None
                else self.take_all(c, q, option, results)
            )
            if found is not None:
                return found
        return None

    def pick(
        self, c: int, q: int, option: RequestOption, need: int, start: int, results: Results
    ) -> Results | None:
        if need == 0:
            return self.solve(c, q + 1, results)
        for device in self.scene.devices[start:]:
            self.left -= 1
            if self.left < 0:
                raise TooLarge
            chosen = self._try(option, device, results)
            if chosen is not None:
                found = self.pick(c, q, option, need - 1, device.index + 1, (*results, chosen))
                if found is not None:
                    return found
        return None

    def take_all(self, c: int, q: int, option: RequestOption, results: Results) -> Results | None:
        assert option.listed is not None
        for device in option.listed:
            chosen = self._take(option, device, results)
            if chosen is None:
                return None
            results = (*results, chosen)
        return self.solve(c, q + 1, results)

    def _try(self, option: RequestOption, device: Device, results: Results) -> Result | None:
        """SRCH-12 for ExactCount; None means skip."""
        scene = self.scene
        if self._in_use(option, device, results) or not scene.selectable(option.wanted, device):
            return None
        consumed = scene.consumed(option.wanted, device)
        if consumed is None or not self._room(device, consumed, results):
            return None
        if scene.requested(option.wanted, device) is None:
            return None
        if not self._stands(option, device, results) or self._broken(option, device, results):
            return None
        return Result(option, device, consumed)

    def _take(self, option: RequestOption, device: Device, results: Results) -> Result | None:
        """SRCH-12 for mode All: the tests after the list, capacity last."""
        if self.scene.requested(option.wanted, device) is None:
            return None
        if self._in_use(option, device, results) or not self._stands(option, device, results):
            return None
        if self._broken(option, device, results):
            raise Failure(Reason.CONSTRAINT_VIOLATED)
        consumed = self.scene.consumed(option.wanted, device)
        if consumed is None or not self._room(device, consumed, results):
            return None
        return Result(option, device, consumed)

    def _in_use(self, option: RequestOption, device: Device, results: Results) -> bool:
        """Step 1."""
        marked = [r.option.claim for r in results if r.device is device and not self.scene.multi(device)]
        if option.admin:
            return option.claim in marked
        return device.key in self.scene.held.dedicated or bool(marked)

    def _room(self, device: Device, consumed: Amounts, results: Results) -> bool:
        """CAP-8, CAP-9."""
        before = dict(self.scene.held.shares.get(device.key, {}))
        for result in results:
            if result.device is device and self.scene.multi(device):
                for key, value in result.consumed.items():
                    before[key] = before.get(key, Fraction(0)) + value
        return fits(device, consumed, before)

    def _stands(self, option: RequestOption, device: Device, results: Results) -> bool:
        """Steps 4 to 8."""
        scene = self.scene
        if not scene.may_operate(device):
            return False
        excluded = not admitted(scene, device, [r.device for r in results])
        if excluded and not self._drawn_before(device, results):
            return False
        if device.raw.get("consumesCounters"):
            if not scene.has("DRAPartitionableDevices"):
                return False
            if not self._counters(option, device, results):
                return False
        return scene.tolerated(option.wanted, device)

    def _drawn_before(self, device: Device, results: Results) -> bool:
        """CAP-13."""
        if device.key in self.scene.held.shares:
            return True
        return self.scene.multi(device) and any(r.device is device for r in results)

    def _counters(self, option: RequestOption, device: Device, results: Results) -> bool:
        """CTR-2, CTR-5, SCC-2."""
        pool = self.scene.pool_of(device)
        left = dict(pool.totals)
        for other in [*pool.devices, *pool.foreign]:
            if other.key in self.scene.held:
                for drawn, value in self.scene.held_draws(other).items():
                    left[drawn] -= value
        for key, records in self.scene.held.records.items() if self.scene.requests_draw else ():
            if key[:2] == device.key[:2] and key not in {d.key for d in [*pool.devices, *pool.foreign]}:
                for drawn, value in [item for record in records if record for item in record.items()]:
                    left[drawn] -= value
        running = dict.fromkeys(left, Fraction(0))
        for at, result in enumerate(results):
            if result.device in pool.devices:
                for drawn, value in self._drawn(result.option, result.device, results[:at]):
                    running[drawn] += value
        mine = self._drawn(option, device, results)
        for drawn, value in mine:
            running[drawn] += value
        tested = {drawn for drawn, value in mine if value} if self._drawn_before(device, results) else left
        return all(running[drawn] <= left[drawn] for drawn in tested)

    def _drawn(
        self, option: RequestOption, device: Device, before: Results
    ) -> list[tuple[tuple[str, str], Fraction]]:
        """What a device draws after some results: what its request says, and all else once."""
        asked = self.scene.requested(option.wanted, device) or {}
        static = {} if self._drawn_before(device, before) else device.draws
        return [*asked.items(), *static.items()]

    def _broken(self, option: RequestOption, device: Device, results: Results) -> bool:
        """CON-1 to CON-8. Raises Failure (CON-13)."""
        lists = self.scene.has("DRAListTypeAttributes")
        for constraint in self.scene.world.claims[option.claim]["spec"]["devices"].get("constraints", ()):
            if not applies(constraint, option.request, option.sub):
                continue
            name = constrained(constraint)
            mine = self.scene.attribute(option.wanted, device, name)
            before = [
                self.scene.attribute(r.option.wanted, r.device, name)
                for r in results
                if r.option.claim == option.claim and applies(constraint, r.option.request, r.option.sub)
            ]
            if not holds_together(constraint, [*before, mine], lists=lists):
                return True
        return False


def _check_selectors(scene: Scene, results: Results) -> None:
    """RES-12, RES-13."""
    for at in range(len(scene.world.claims)):
        for device in _of_claim(results, at):
            if device.place.get("nodeName") or device.raw.get("bindsToNode"):
                break
            if device.place.get("allNodes"):
                continue
            if len(device.place["nodeSelector"]["nodeSelectorTerms"]) > 1:
                raise Failure(Reason.NODE_SELECTOR)


def _of_claim(results: Results, at: int) -> Iterator[Device]:
    return (r.device for r in results if r.option.claim == at)
