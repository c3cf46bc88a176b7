"""Keeps internal errors of jobs beside the allocation from ending the process."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from reconciler.errors import Inconsistent

log = structlog.get_logger()


class Failures:
    """Counts internal errors of jobs. The jobs go on."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def contained(self, job: str, name: str = "") -> Iterator[None]:
        """Log and count an internal error of the block, which a job with this name tries again later.

        `name` is that of the object, if there is one. Lets Inconsistent through, which is a bug of ours that
        the process must not survive.
        """
        try:
            yield
        except Inconsistent:
            raise
        except Exception:
            self.count += 1
            log.exception("job failed", job=job, name=name)
