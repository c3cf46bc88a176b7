"""`dra-reconciler run` as a process, looked at from outside."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.tools.patience import PATIENCE
from tests.tools.processes import assert_refused, finished, start, written
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.watched_reconciler import ask

pytestmark = pytest.mark.loopback


async def test_the_logged_url_answers_until_the_process_ends(tmp_path: Path):
    manifest = written(tmp_path / "all.yaml", node("n"), device_class(), devices("n", "d0"), claim("a"))
    token = tmp_path / "token"
    token.write_text("token")
    arguments = ("run", "--embedded", "-f", manifest, "--status-address", "0.0.0.0")
    process = await start(*arguments, DRA_RECONCILER_STATUS_TOKEN_FILE=str(token))
    assert process.stderr is not None
    told: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        while not {"claim allocated", "status served"} <= told.keys():
            line = json.loads(await process.stderr.readline())
            told[line["event"]] = line
    url = told["status served"]["url"].replace("0.0.0.0", "127.0.0.1")
    assert url.startswith("https://")
    bearer = {"Authorization": "Bearer token"}
    metrics = await ask(f"{url}/metrics", bearer, tls=False)
    assert 'dra_reconciler_devices{driver="gpu.example.com",state="held"} 1.0' in metrics.text
    assert (await ask(f"{url}/metrics", tls=False)).status == 401
    assert (await ask(f"{url}/livez", tls=False)).text == "ok"
    assert "Bearer" not in (status := await ask(f"{url}/statusz", bearer, tls=False)).text
    assert "dra-reconciler statusz" in status.text
    process.send_signal(signal.SIGTERM)
    code, _, err = await finished(process)
    assert (code, "Traceback" in err) == (0, False)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--status-address", "0.0.0.0"), "status_token_file"),
        (("--status-address", "127.0.0.256"), "127.0.0.256"),
        (("--status-port", "65536"), "--status-port"),
    ],
)
def test_an_unusable_port_is_reported_at_the_start(flags: tuple[str, ...], message: str):
    assert_refused(("run", "--embedded", *flags), {}, 2, message)
