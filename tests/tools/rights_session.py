"""A pytest plugin: what the process asks servers for in any test is what `deploy` grants, and nothing else.

Each process of the session notes what `app.run` sends, and what servers with roles saw of our account, which
includes children such as the doctor on its rounds. The process that leads the session compares: always that
all of it is granted, and after the whole suite also that nothing is granted that no test needed.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple, replace

from reconciler import app
from reconciler.cluster.transport import Lines, Query, Request, Response, Transport, WatchRequest
from reconciler.embedded.accounts import AccessRequest, Account
from reconciler.embedded.guard import Guard
from reconciler.settings import Settings
from tests.tools import deployed_rights

KEY = "asked of API servers"
SERVER_SIDE = frozenset({"tokenreviews", "subjectaccessreviews"})
"""Granted by a role that every cluster has, not by one of ours"""

Seen = dict[tuple[str, AccessRequest], str]
"""Mode and request -> the test that made it first"""


class Rights:
    """Notes requests in every process of a session, and judges them in the one that leads it."""

    def __init__(self, granted: Mapping[str, deployed_rights.Granted]) -> None:
        """`granted` has what may be asked for, by mode."""
        self._granted = granted
        self.seen: Seen = {}
        self.problems: list[str] = []

    def note(self, modes: Sequence[str], asked: AccessRequest) -> None:
        """A process with the rights of these modes asked for that in the test that runs now."""
        allowing = (mode for mode in modes if mode in self._granted and self._granted[mode].allows(asked))
        key = (next(allowing, modes[0]), asked)
        if key not in self.seen:
            self.seen[key] = os.environ.get("PYTEST_CURRENT_TEST", "a test").rpartition(" (")[0]

    def judge(self, *, whole: bool) -> list[str]:
        """What is wrong, a line each. `whole`: all tests ran, so what nobody asked for is not needed."""
        found = [
            f"{test}: the role for {mode} does not grant {_told(asked)}"
            for (mode, asked), test in self.seen.items()
            if not self._granted[mode].allows(asked)
        ]
        if whole:
            for mode, granted in self._granted.items():
                used = {deployed_rights.right(asked) for seen_in, asked in self.seen if seen_in == mode}
                unused = sorted(granted.rights - used)
                found += [f"the role for {mode} grants {right}, which no test needs" for right in unused]
        return found

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note from now on what the process asks for."""
        run = app.run

        async def noted(settings: Settings, transport: Transport, **rest: Any) -> None:
            def note(asked: AccessRequest) -> None:
                modes = deployed_rights.modes_of(settings)
                self.note(modes, as_deployed(asked, settings, deployed_rights.settings()))

            await run(settings, Noting(transport, note), **rest)

        monkeypatch.setattr(app, "run", noted)
        self.watch_servers(monkeypatch)

    def watch_servers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Note what servers that enforce roles see of our account."""
        allows = Guard.allows

        def noting(guard: Guard, account: Account, asked: AccessRequest) -> bool:
            modes = deployed_rights.modes_by(guard.roles, account)
            if modes and asked.resource not in SERVER_SIDE:
                self.note(modes, as_deployed(asked, deployed_rights.settings(), deployed_rights.settings()))
            return allows(guard, account, asked)

        monkeypatch.setattr(Guard, "allows", noting)

    def pytest_sessionstart(self) -> None:
        self._patched = pytest.MonkeyPatch()
        self.watch(self._patched)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for mode, parts, test in getattr(node, "workeroutput", {}).get(KEY, ()):
            self.seen.setdefault((mode, AccessRequest(*parts)), test)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self._patched.undo()
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[KEY] = [(mode, astuple(asked), test) for (mode, asked), test in self.seen.items()]
            return
        passed = exitstatus == pytest.ExitCode.OK
        self.problems = self.judge(whole=passed and _is_whole(session.config))
        if self.problems and passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.problems:
            terminalreporter.section("requests and roles", red=True)
            for line in self.problems:
                terminalreporter.line(line)


def _is_whole(config: pytest.Config) -> bool:
    """Whether nothing of the suite was left out."""
    options = config.option
    chosen = options.keyword or options.markexpr or options.deselect or options.ignore or options.collectonly
    narrowed = getattr(options, "lf", False) or options.maxfail or options.ignore_glob
    root = config.rootpath
    tests = {(root / path).resolve() for path in config.getini("testpaths")}
    return not chosen and not narrowed and {Path(arg).resolve() for arg in config.args} == tests


def _told(asked: AccessRequest) -> str:
    if asked.path:
        return f"{asked.verb} {asked.path}"
    where = f" in {asked.namespace}" if asked.namespace else ""
    return f"{deployed_rights.right(asked)._replace(name=asked.name)}{where}"


def plugin() -> Rights:
    """For the roles of this repository."""
    modes = (*deployed_rights.ACCOUNTS, *deployed_rights.COMPONENTS, deployed_rights.ADVISE)
    return Rights({mode: deployed_rights.granted(mode) for mode in modes})


# -- What a request asks for, as an authorizer sees it, told from its method, path and query alone.


_RESOURCE = re.compile(
    r"/(?:api|apis/(?P<group>[-a-z0-9.]+))/v[0-9a-z]+(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ONE = "metadata.name="


def asked(method: str, path: str, query: Query = ()) -> AccessRequest:
    """The verb and the resource, or the path where it names none."""
    match = _RESOURCE.fullmatch(path)
    if match is None:
        return AccessRequest(_VERBS.get(method, method.lower()), path=path)
    fields, watches = dict(query).get("fieldSelector", ""), ("watch", "true") in query
    name = match["name"] or (fields.removeprefix(_ONE) if fields.startswith(_ONE) else "")
    reads = "watch" if watches else "get" if match["name"] else "list"
    resource = match["plural"] + (f"/{match['part']}" if match["part"] else "")
    return AccessRequest(
        _VERBS.get(method, reads), match["group"] or "", resource, match["namespace"] or "", name
    )


def as_deployed(asked: AccessRequest, settings: Settings, deployed: Settings) -> AccessRequest:
    """The same under the settings of `deploy`: names that settings choose become those chosen there.

    Where a right is for everything, neither name nor namespace says anything, and both are left out.
    """
    for here, there in (
        (settings.pause_config_map, deployed.pause_config_map),
        (settings.demand_config_map, deployed.demand_config_map),
        (settings.held_room_config_map, deployed.held_room_config_map),
    ):
        if asked.resource == "configmaps" and here == f"{asked.namespace}/{asked.name}":
            namespace, _, name = (there or "/").partition("/")
            return replace(asked, namespace=namespace, name=name)
    if asked.resource == "leases" and asked.namespace == settings.lease_namespace:
        return replace(asked, namespace=deployed.lease_namespace, name="")
    if asked.resource in ("configmaps", "leases"):
        return asked
    return replace(asked, namespace="", name="")


@dataclass
class Noting:
    """A transport that tells of every request before it is sent."""

    behind: Transport
    note: Callable[[AccessRequest], None]

    async def send(self, request: Request) -> Response:
        self.note(asked(request.method, request.path, request.query))
        return await self.behind.send(request)

    def stream(self, request: WatchRequest) -> Lines:
        self.note(asked("GET", request.path, request.query))
        return self.behind.stream(request)
