"""Names and addresses, whatever somebody wrote into them."""

from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from reconciler.operations.page.query import LONGEST_NAME, Query, anchor, shown


def test_names_that_can_be_shown_are_not_changed():
    assert shown("gpu-0.example.com/Gerät-名前") == "gpu-0.example.com/Gerät-名前"


def test_what_hides_or_turns_text_is_made_visible():
    assert shown("a\u202egnp.exe\u2066\x00\n\u200bz") == "a�gnp.exe����z"


def test_long_names_keep_head_and_tail():
    made = shown("head" + "x" * 5000 + "tail")
    assert len(made) == LONGEST_NAME
    assert made.startswith("headx")
    assert made.endswith("xtail")
    assert shown("y" * LONGEST_NAME) == "y" * LONGEST_NAME
    assert shown("abcdef", 5) == "ab…ef"


@given(st.text(), st.text())
def test_anchors_are_safe_ids_and_tell_names_apart(one: str, other: str):
    assert anchor(one).isalnum()
    assert (anchor(one) == anchor(other)) == (one == other)
    assert anchor("a", "bc") != anchor("ab", "c")


@given(
    st.lists(st.text(max_size=40), min_size=4, max_size=4),
    st.lists(st.integers(1, 10**6), min_size=4, max_size=4),
)
def test_an_address_says_what_the_query_says(filters: list[str], pages: list[int]):
    query = Query(*(text.strip() for text in filters), *pages)  # type: ignore[arg-type]
    pairs = parse_qs(urlsplit(query.url("/")).query)
    assert Query.read({name: values[0] for name, values in pairs.items()}) == query


def test_nonsense_is_taken_for_nothing():
    assert Query.read({"page": "-1"}) == Query()
    assert Query.read({"page": "1e9", "node": "  "}) == Query()
    assert Query.read({"page": "٣"}) == Query()
    assert Query.read({"page": "0"}) == Query()
    assert len(Query.read({"claim": "x" * 10_000}).claim) == 512
