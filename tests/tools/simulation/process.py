"""What a schedule changes of the process that plays it: garbage, logging and chance."""

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from warnings import catch_warnings, simplefilter

import structlog

from reconciler.cel import program

Say = Callable[[str], None]


@contextmanager
def tidy() -> Iterator[None]:
    """Circular garbage is collected once, at the end: to look for it all the time is a sixth of the work.

    A decorator: what its function refers to is garbage only after the function has returned.
    """
    gc.disable()
    try:
        yield
    finally:
        with catch_warnings():
            simplefilter("ignore", ResourceWarning)  # who was killed has closed nothing
            gc.collect(0)  # what was made meanwhile
        gc.enable()


@contextmanager
def quiet(seed: int, count: Counter[str], say: Say | None) -> Iterator[list[str]]:
    """Log lines are counted, said if somebody listens, and kept if they tell of what nobody expected."""
    errors: list[str] = []
    chance = random.getstate()
    random.seed(seed)  # the reconciler draws its pauses from here

    def hear(_: object, level: str, line: Any) -> Any:
        if say is not None:
            say(f"{level}: {line}")
        if level in ("error", "exception", "critical"):
            count["errors logged"] += 1
            errors.append(f"logged: {line}")
        raise structlog.DropEvent

    before = structlog.get_config()
    level = 10 if say is not None else 40
    structlog.configure(
        processors=[structlog.processors.format_exc_info, hear],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    try:
        # What one of many schedules leaves must be collected. Selectors that are known already run elsewhere.
        program.compile_selector.cache_clear()
        program._KNOWN.clear()
        with mock.patch("gc.freeze"), mock.patch("gc.collect"):
            yield errors
    finally:
        structlog.configure(**before)
        random.setstate(chance)
