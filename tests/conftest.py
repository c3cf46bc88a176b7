"""The clock of every test, virtual unless the test is marked `loopback`; how properties are searched; and
that what the process asks of servers, in any test, is granted by the roles of `deploy`.
"""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest
import structlog
import yaml
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import reconciler.plugins  # noqa: F401 - registers them
from tests.tools.any_cluster import CONTEXT
from tests.tools.examples import FACTOR, scaled
from tests.tools.rights_session import plugin
from tests.tools.virtual_time import VirtualLoop

# A check of IRIs that jsonschema makes only if this package is there, and that no test needs, builds 38
# parsers on import: two seconds of every process.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# What is imported and collected stays; see `pytest_collection_finish`.
gc.disable()

# libyaml reads the same, ten times as fast.
yaml.SafeLoader = yaml.CSafeLoader  # type: ignore[misc, assignment]

# The client library reads all authorities of the system for each client, also for plain HTTP: 25 ms, hundreds
# of times. Servers of tests are on this machine and bring their own.
if CONTEXT not in os.environ:
    os.environ["SSL_CERT_FILE"] = os.devnull

# Output without a terminal is wrapped only if COLUMNS gives a width, as a terminal or readline may have done.
os.environ.pop("COLUMNS", None)

# Hypothesis tries constants of all modules that were imported before: the examples of a test would depend on
# the tests before it. There is no public switch (6.170).
if FACTOR == 1:
    providers._get_local_constants = lambda: providers._local_constants

# On busy machines a deadline fails by chance. `ci` is hypothesis' own: the same examples every time.
# Properties that do not say how many examples they need are tried on so many.
MANY = scaled(40)
settings.register_profile(
    "here", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=MANY
)
settings.register_profile("ci", settings.get_profile("ci"), max_examples=MANY)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(plugin(), "rights")


def pytest_collection_finish() -> None:
    """What was imported stays: to look at it for circular garbage is a tenth of the work."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Logging is of the whole process: a command that a test runs must not decide what the next one hears."""
    root, ours = logging.getLogger(), logging.getLogger("reconciler")
    handlers, level, own = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(own)
    structlog.reset_defaults()


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("loopback"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
