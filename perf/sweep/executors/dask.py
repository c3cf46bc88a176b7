"""Plays batches on the workers of a Dask scheduler, or on some that are started here."""

from contextlib import ExitStack
from importlib import import_module
from typing import Any

from perf.sweep.executors import AHEAD, Done
from perf.sweep.results import Task
from perf.sweep.spec import Batches, play
from reconciler.errors import Rejected

TIMEOUT = "30s"


def run(batches: Batches, address: str | None, workers: int, done: Done) -> None:
    """Play all batches. Without an address, starts that many workers. Raises Rejected."""
    try:
        distributed: Any = import_module("distributed")  # comes with an extra
    except ImportError as exc:
        raise Rejected(f"Dask is not installed; install the extra `sweep` of this project: {exc}") from exc
    with ExitStack() as stack:
        if address is None:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None
            )
            address = stack.enter_context(cluster).scheduler_address
        try:
            client = stack.enter_context(distributed.Client(address, timeout=TIMEOUT, set_as_default=False))
        except (OSError, ValueError) as exc:
            raise Rejected(f"no Dask scheduler answers at {address}: {exc}") from exc
        client.wait_for_workers(1, timeout=TIMEOUT)
        sent: dict[str, list[Task]] = {}
        running = distributed.as_completed(loop=client.loop)

        def send() -> None:
            # Asked again each time: workers come and go.
            slots = max(sum(client.nthreads().values()), 1)
            while len(sent) < AHEAD * slots and (batch := batches.next()):
                future = client.submit(play, batch, pure=False)
                sent[future.key] = batch
                running.add(future)

        send()
        for future in running:
            done(sent.pop(future.key), future.result())
            send()
