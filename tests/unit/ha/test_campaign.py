"""Never two that may write at once; and somebody leads again once the trouble is over."""

import asyncio
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.validation.served_kinds import LEASE
from reconciler.ha.shard import WHOLE, parse_shard
from tests.tools.candidates import NAMESPACE, Candidate, Device, Server, candidate
from tests.tools.examples import examples
from tests.tools.simulation.clock import SimulationLoop

SHARDS = (
    WHOLE,
    parse_shard("driver=a"),
    parse_shard("driver=b"),
    parse_shard("driver=a,pool-prefix=x"),
    parse_shard("pool-prefix=xy"),
)
SETTLED = 150.0
"""Seconds of calm after which somebody leads: two old leases and their writes waited out, and chance"""


class Play:
    """A life of a few candidates, drawn from a seed."""

    def __init__(self, seed: int, loop: SimulationLoop, *, no_earlier_leader: bool) -> None:
        """With `no_earlier_leader`, no Lease is ever lost: that is what whoever sets it assures."""
        self.assured = no_earlier_leader
        self.random = Random(seed)
        self.device = Device(loop)
        self.server = Server(loop, self.random)
        self.trouble = self.random.choice((0.0, 0.1, 0.4))
        self.shards = self.random.choice(((WHOLE,), (WHOLE,), SHARDS[1:3], SHARDS))
        self.candidates: list[Candidate] = []
        self.made = 0

    def add(self) -> None:
        self.made += 1
        one = candidate(
            f"c{self.made}",
            self.random.choice(self.shards),
            self.server,
            self.device,
            self.random,
            trouble=self.trouble,
            no_earlier_leader=self.assured,
        )
        self.candidates.append(one)
        one.start()

    async def act(self) -> None:
        one = self.random.choice(self.candidates)
        act = self.random.choice(("kill", "stop", "cut", "cut", "heal", "restart", "delete", "wait", "wait"))
        if act in ("kill", "stop"):
            self.candidates.remove(one)
            await (one.kill() if act == "kill" else one.stop())
            self.add()
        elif act in ("cut", "heal"):
            one.ways.cut = act == "cut"
        elif self.assured:
            return
        elif act == "restart" and len(self.shards) == 1:  # all together forget who leads
            self.server.restart()
        elif act == "delete" and len(self.shards) == 1:
            for record in list(self.server.api.store[LEASE].scan("")):
                self.server.api.delete(LEASE, NAMESPACE, record.object["metadata"]["name"])

    async def run(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.add()
        for _ in range(self.random.randint(3, 12)):
            await asyncio.sleep(self.random.choice((0.1, 1.0, 5.0, 30.0)) * self.random.random() * 2)
            await self.act()
        for one in self.candidates:
            one.ways.cut, one.ways.trouble = False, 0.0
        await asyncio.sleep(SETTLED)
        began = asyncio.get_running_loop().time()
        assert self.device.last > began - 15, "nobody leads"
        await asyncio.gather(*(one.kill() for one in self.candidates))
        for task in list(self.server.on_the_way):
            await task


def play(seed: int, *, no_earlier_leader: bool = False) -> Device:
    with asyncio.Runner(loop_factory=SimulationLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimulationLoop)

        async def run() -> Device:
            one = Play(seed, loop, no_earlier_leader=no_earlier_leader)
            await one.run()
            return one.device

        return runner.run(run())


@example(13500)  # a Lease made anew comes to the version at which it was seen long ago
@examples(16)
@given(st.integers(0, 2**32))
def test_never_two_may_write_and_somebody_does(seed: int):
    device = play(seed)
    assert device.findings == []
    assert device.writes


@examples(16)
@given(st.integers(0, 2**32))
def test_whoever_is_assured_that_nobody_led_before_excludes_all_that_come_later(seed: int):
    """Also those that start at the same time, with the same assurance."""
    device = play(seed, no_earlier_leader=True)
    assert device.findings == []
    assert device.writes
