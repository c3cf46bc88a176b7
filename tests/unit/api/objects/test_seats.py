"""The annotation that records the node of a member."""

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GANG, SEAT, GangKey, GangSource, SeatMark, seat_mark, seated_on
from tests.tools.gangs import annotated

G = GangKey("default", GangSource.ANNOTATION, "g")


def pod(seat: str, **annotations: str) -> Pod:
    raw = annotated("p", size=2)
    raw["metadata"]["annotations"] |= {SEAT: seat, **annotations}
    return Pod.model_validate(raw)


def test_what_is_written_is_read():
    mark = SeatMark(G, 16, "n1")
    assert seat_mark(pod(str(mark)), G) == mark
    assert seated_on(pod(str(mark))) == "n1"


@pytest.mark.parametrize(
    "text", ["", "annotation/g", "annotation/g 2", "annotation/g 2 ", "annotation/g x n", "n"]
)
def test_what_is_no_mark_says_nothing(text: str):
    assert seat_mark(pod(text), G) is None
    assert seated_on(pod(text)) == ""


def test_the_mark_of_another_gang_says_nothing():
    """Else anybody could take room on a node by an annotation on a gated pod."""
    assert seated_on(pod("annotation/g 2 n1", **{GANG: "other"})) == ""
