"""Plays batches in processes of this machine, or in this process if one is enough."""

from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from perf.sweep.executors import AHEAD, Done
from perf.sweep.results import Result, Task
from perf.sweep.spec import Batches, play
from reconciler.errors import Rejected


def run(batches: Batches, workers: int, done: Done) -> None:
    """Play all batches. Raises Rejected if the system killed a process."""
    if workers == 1:
        while batch := batches.next():
            done(batch, play(batch))
        return
    running: dict[Future[list[Result]], list[Task]] = {}
    # Not forked: a child must not inherit the threads of progress and of NumPy half-way.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            while True:
                while len(running) < AHEAD * workers and (batch := batches.next()):
                    running[pool.submit(play, batch)] = batch
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done(running.pop(future), future.result())
        except BrokenProcessPool as exc:
            raise Rejected(
                "a process was killed, perhaps for want of memory; start the sweep again with fewer "
                "--workers: finished scenarios are kept"
            ) from exc
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
