"""The embedded server answers as a real one did, step by recorded step."""

from pathlib import Path

import aiohttp
import pytest

from reconciler.embedded import ApiServer, serve
from tests.embedded.replay import ORDER, Learned, load, mismatches

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT.parent / "shared" / "conformance" / "apiserver"

OUT_OF_SCOPE = {
    ("discovery-and-errors", 12): "a wrong token: the embedded server has no accounts, so no token is wrong",
}

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings at {RECORDINGS}"),
]


@pytest.mark.parametrize("name", ORDER)
async def test_every_recorded_step_gets_the_recorded_answer(name: str):
    """Earlier recordings are played first: they leave the objects that later ones meet."""
    learned = Learned()
    async with serve(ApiServer()) as url, aiohttp.ClientSession() as session:
        for before in ORDER[: ORDER.index(name)]:
            await mismatches(load(RECORDINGS / f"{before}.json"), url, session, learned)
        found = await mismatches(load(RECORDINGS / f"{name}.json"), url, session, learned)
    assert [mismatch for mismatch in found if (name, mismatch.step) not in OUT_OF_SCOPE] == []


def test_every_recording_is_played():
    assert {path.stem for path in RECORDINGS.glob("*.json")} == set(ORDER)


async def test_every_step_named_out_of_scope_really_disagrees():
    """The list of exceptions holds nothing that works."""
    learned, failed = Learned(), set()
    async with serve(ApiServer()) as url, aiohttp.ClientSession() as session:
        for name in ORDER:
            found = await mismatches(load(RECORDINGS / f"{name}.json"), url, session, learned)
            failed |= {(name, mismatch.step) for mismatch in found}
    assert failed == set(OUT_OF_SCOPE)
