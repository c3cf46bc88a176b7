"""Recorded conversations with an API server, played against the embedded one. A case is one step."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import aiohttp

from reconciler.embedded import serve
from tests.conformance.documents import SHARED, Document
from tests.conformance.outcome import Mismatch, Outcome
from tests.tools.transcript_replay import ORDER, Learned, load, mended, mismatches, recorded_server

Recording = Mapping[str, Any]


def recognises(data: Recording) -> bool:
    """Whether this is a recording."""
    return "steps" in data


def run(found: Sequence[Document]) -> Iterator[Outcome]:
    """Every step of every recording, on one server: later recordings meet what earlier ones left.

    An earlier one that is not among them is played from beside them, or from the default folder, and
    not judged.
    """
    given = [mended({"topic": document.path.stem, **document.data}) for document in found]
    given.sort(key=_turn)
    yield from asyncio.run(_play(_before(given, found), given))


def _turn(recording: Recording) -> tuple[int, str]:
    topic = recording["topic"]
    return ORDER.index(topic) if topic in ORDER else len(ORDER), topic


def _before(given: Sequence[Recording], found: Sequence[Document]) -> list[Recording]:
    if given[-1]["topic"] not in ORDER:
        return []
    places = [*(document.path.parent for document in found), SHARED / "apiserver"]
    missing = [topic for topic in ORDER[: _turn(given[-1])[0]] if topic not in {g["topic"] for g in given}]
    files = (next((f for p in places if (f := p / f"{topic}.json").is_file()), None) for topic in missing)
    return [load(file) for file in files if file is not None]


async def _play(before: Sequence[Recording], given: Sequence[Recording]) -> list[Outcome]:
    learned, outcomes = Learned(), []
    async with serve(recorded_server()) as url, aiohttp.ClientSession() as session:
        for recording in sorted([*before, *given], key=_turn):
            found = {m.step: m.why for m in await mismatches(recording, url, session, learned)}
            if recording not in before:
                outcomes += [
                    _outcome(recording["topic"], number, step, found.get(number))
                    for number, step in enumerate(recording["steps"])
                ]
    return outcomes


def _outcome(topic: str, number: int, step: Mapping[str, Any], why: str | None) -> Outcome:
    request, answer = step["request"], step["response"]
    case = f"{topic} step {number}: {request['method']} {request['path']}"
    return Outcome(case, None if why is None else Mismatch(answer, why))
