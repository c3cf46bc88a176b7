"""Draw the pictures: `python -m docs.pictures`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from docs.pictures.counters import counters
from docs.pictures.funnel import funnel
from docs.pictures.pipeline import pipeline
from docs.pictures.rooms import rooms

FOLDER = Path(__file__).parents[1] / "images"
PICTURES: Mapping[str, Callable[[], str]] = {
    "pipeline.svg": pipeline,
    "counters.svg": counters,
    "funnel.svg": funnel,
    "rooms.svg": rooms,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw())
