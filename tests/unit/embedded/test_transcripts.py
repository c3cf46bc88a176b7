"""The embedded server responds like a real one, at every recorded step."""

import aiohttp
import pytest

from reconciler.embedded import serve
from tests.tools.checkout import ROOT
from tests.tools.transcript_replay import ORDER, Learned, load, mismatches, recorded_server

RECORDINGS = ROOT.parent / "shared" / "conformance" / "apiserver"

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings at {RECORDINGS}"),
]


@pytest.mark.parametrize("name", ORDER)
async def test_every_recorded_step_gets_the_recorded_response(name: str):
    """Earlier recordings are played first: they create the objects that later ones need."""
    learned = Learned()
    async with serve(recorded_server()) as url, aiohttp.ClientSession() as session:
        for before in ORDER[: ORDER.index(name)]:
            await mismatches(load(RECORDINGS / f"{before}.json"), url, session, learned)
        found = await mismatches(load(RECORDINGS / f"{name}.json"), url, session, learned)
    assert found == []


def test_every_recording_is_played():
    assert {path.stem for path in RECORDINGS.glob("*.json")} == set(ORDER)
