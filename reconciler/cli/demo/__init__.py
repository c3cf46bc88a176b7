"""`dra-reconciler demo`: server, fleet and reconciler in one process, until nothing changes."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec import Struct

from reconciler import app
from reconciler.api.manifests.documents import InvalidDocument, documents
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.api.validation.served_kinds import CLAIM, POD
from reconciler.cli.apiserver import schedule
from reconciler.cli.exits import Exit, exit_on_errors
from reconciler.cli.output import Console, print_line
from reconciler.cluster.http import connect
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import ApiServer, run_controllers, serve
from reconciler.embedded.pod_controllers import RUN_SECONDS
from reconciler.errors import Malformed, Retry, counted
from reconciler.operations.log_setup import configure
from reconciler.settings import Settings


class AllocatedLine(Struct, frozen=True):
    """An allocated claim."""

    claim: ObjectKey
    devices: tuple[str, ...]
    node: str
    seconds: float
    """Since the start of the reconciler"""


class DemoState:
    """What the demonstration shows: the objects of the embedded server, and what the reconciler decides."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.lines: list[AllocatedLine] = []
        self.reasons: dict[ObjectKey, Waits] = {}
        """Claim -> why it is pending; removed when it is allocated"""
        self._decisions = 0
        self._start = 0.0

    def start(self) -> None:
        """The reconciler starts now."""
        self._start = asyncio.get_running_loop().time()

    def on_decision(self, decision: Decision) -> None:
        """Record a decision of the reconciler."""
        self._decisions += 1
        match decision:
            case Allocated():
                self.reasons.pop(decision.claim, None)
                devices = tuple(device.device for device in decision.devices)
                seconds = asyncio.get_running_loop().time() - self._start
                self.lines.append(AllocatedLine(decision.claim, devices, decision.node, seconds))
            case Waits():
                self.reasons.update(dict.fromkeys(decision.claims, decision))

    @property
    def pods(self) -> list[Pod]:
        """All pods on the server."""
        return [validated(Pod, record.object) for record in self._api.store[POD].scan("")]

    @property
    def claims(self) -> dict[ObjectKey, ResourceClaim]:
        """All claims on the server."""
        found = [validated(ResourceClaim, record.object) for record in self._api.store[CLAIM].scan("")]
        return {claim.key: claim for claim in found}

    def version(self) -> tuple[int, ...]:
        """Changes with every decision, pod and claim."""
        stores = (self._api.store[POD], self._api.store[CLAIM])
        return self._decisions, *(record.version for store in stores for record in store.scan(""))

    @property
    def claims_made(self) -> bool:
        """Whether every pod names its claims, those of templates included."""
        return all(name for pod in self.pods for name in pod.claim_names().values())

    @property
    def settled(self) -> bool:
        """Whether every claim is allocated or refused, and no pod will change any more."""
        decided = all(claim.allocation or key in self.reasons for key, claim in self.claims.items())
        return decided and all(map(self._is_final, self.pods))

    def pending(self) -> list[tuple[ObjectKey, Waits]]:
        """The pending claims with their reasons, by name."""
        claims = self.claims
        return sorted((key, why) for key, why in self.reasons.items() if key in claims)

    def phases(self) -> Counter[str]:
        """The number of pods in each phase."""
        return Counter("Gated" if pod.gated else pod.status.phase for pod in self.pods)

    def _is_final(self, pod: Pod) -> bool:
        if pod.finished:
            return True
        if pod.status.phase == "Running":
            return RUN_SECONDS not in pod.metadata.annotations
        names = pod.claim_names().values()
        return any(name and ObjectKey(pod.key.namespace, name) in self.reasons for name in names)


@click.command()
def demo() -> None:
    """Start the embedded API server with a sample fleet and claims, reconcile over HTTP, then exit.

    Needs no cluster. Shows each allocation as it happens, and the reason for each pending claim.
    The objects are in the package's directory cli/demo/manifests.

    \b
    Examples:
      dra-reconciler demo
      dra-reconciler run --embedded -f manifests/  # your own objects
    """
    configure("warning", "short")
    console = Console(sys.stdout)
    with exit_on_errors(Exit.NO):
        asyncio.run(play(read_demo_manifests(sys.stdin.buffer), console))


MANIFESTS = Path(__file__).parent / "manifests"
LOOK_SECONDS = 0.05
"""Between two looks at the server"""
QUIET_LOOKS = 10
"""The demonstration ends after so many looks without a change: freed devices are allocated again at once.
They are counted because half a second may be one look on a busy machine"""
MAX_SECONDS = 45.0
"""The demonstration fails if it has not settled after this time."""


def read_demo_manifests(stdin: BinaryIO) -> list[dict[str, Any]]:
    """Read the sample fleet and claims."""
    raws = []
    for document in documents([str(MANIFESTS)], stdin):
        if isinstance(document, InvalidDocument):
            raise Malformed(str(MANIFESTS), "", str(document.problem))
        raws.append(dict(document.raw))
    return raws


def server_of(raws: Sequence[dict[str, Any]]) -> ApiServer:
    """A server that holds these objects. They are of one age, however long that takes, so that which comes
    first follows from their priorities and names.
    """
    began, loaded = datetime.now(UTC), False
    api = ApiServer(now=lambda: datetime.now(UTC) if loaded else began)
    api.load(raws)
    loaded = True
    return api


async def play(raws: Sequence[dict[str, Any]], console: Console) -> None:
    """Run the reconciler on these objects. Raises Retry if they do not settle."""
    api = server_of(raws)
    async with run_controllers(api, schedule), serve(api) as url, connect(server=url) as transport:
        kinds = Counter(raw["kind"] for raw in raws)
        devices = sum(len(raw["spec"].get("devices", ())) for raw in raws if raw["kind"] == "ResourceSlice")
        print_line(
            console,
            f"embedded API server on {url}: {kinds['Node']} nodes, {kinds['ResourceSlice']} slices with "
            f"{devices} devices, {kinds['ResourceClaim']} claims, {kinds['Pod']} pods",
        )
        state, stop = DemoState(api), asyncio.Event()
        await _until_claims_are_made(state)
        async with asyncio.TaskGroup() as group:
            state.start()
            group.create_task(
                app.run(Settings(embedded=True), transport, stop=stop, on_decision=state.on_decision),
                name="reconciler",
            )
            await _until_settled(state, console)
            stop.set()
        print_conclusion(state, console)


async def _until_claims_are_made(state: DemoState) -> None:
    """Else a pod might be decided before one of higher priority has a claim, on a slow machine."""
    try:
        async with asyncio.timeout(MAX_SECONDS):
            while not state.claims_made:  # noqa: ASYNC110 - for a moment
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise Retry(f"the claims of the pods are not made after {MAX_SECONDS:.0f} s") from None


async def _until_settled(state: DemoState, console: Console) -> None:
    loop = asyncio.get_running_loop()
    end, shown, version, quiet = loop.time() + MAX_SECONDS, 0, state.version(), 0
    while loop.time() < end:
        await asyncio.sleep(LOOK_SECONDS)
        for line in state.lines[shown:]:
            devices, after = ", ".join(line.devices), f"{line.seconds * 1000:.0f} ms"
            text = f"{after:>8}  allocated {line.claim}: {devices} on {line.node}"
            print_line(console, text, hanging=10)
        shown, before, version = len(state.lines), version, state.version()
        quiet = quiet + 1 if version == before else 0
        if quiet >= QUIET_LOOKS and state.settled:
            return
    raise Retry(f"the demonstration has not settled after {MAX_SECONDS:.0f} s")


_PHASES = {"Running": "running", "Succeeded": "succeeded", "Gated": "gated", "Pending": "pending"}


def print_conclusion(state: DemoState, console: Console) -> None:
    """Print the reasons of pending claims, and a summary."""
    for claim, why in state.pending():
        message = why.message.removeprefix(f"claim {claim}, ").removeprefix(f"claim {claim}: ")
        print_line(console, f"pending   {claim}: {why.reason}: {message}", hanging=10)
    held = sum(bool(claim.allocation) for claim in state.claims.values())
    phases = [f"{count} {_PHASES.get(phase, phase)}" for phase, count in state.phases().most_common()]
    allocated = f"{counted(len(state.lines), 'claim')} allocated, {held} still in use"
    summary = f"{allocated}; {len(state.pending())} pending. Pods: {', '.join(phases)}."
    print_line(console, summary, style="bold")
