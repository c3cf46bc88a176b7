"""Tables of any width: nothing is lost, no word is broken, and columns stay columns where they can."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from reconciler.cli.output import Table, wrapped
from tests.tools.examples import examples

WORDS = st.text("abcxyz/.-界", min_size=1, max_size=18)
CELLS = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=2).map("\n".join)


def words(text: str) -> set[str]:
    return set(text.split())


def lines(table: Table, width: int) -> list[str]:
    return [line.text for line in table.lines(width)]


@examples(60)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=5))
    ),
    st.integers(1, 3),
    st.integers(10, 120),
)
def test_no_word_is_lost_or_broken_and_no_line_is_too_long(shape, names, width):
    columns, rows = shape
    table = Table([f"H{at}" for at in range(columns)], right={"H1"}, names=min(names, columns))
    for row in rows:
        table.add(row)
    found = lines(table, width)
    given_words = words(" ".join(cell for row in rows for cell in row))
    assert given_words <= words(" ".join(found))
    longest = max(map(cell_len, given_words)) + 8  # with the indentation of a block
    assert all(cell_len(line) <= max(width, longest) for line in found)
    assert all(line == line.rstrip() for line in found)


def test_a_table_that_fits_is_not_wrapped():
    table = Table(("NAME", "COUNT"), right={"COUNT"})
    table.add(("one two", "7"))
    assert lines(table, 14) == ["NAME     COUNT", "one two      7"]


def test_lists_are_wrapped_between_words():
    table = Table(("NAME", "FITS"))
    table.add(("a", "one: 1, two: 2, three: 3, four: 4"))
    assert lines(table, 30) == ["NAME  FITS", "a     one: 1, two: 2, three:", "      3, four: 4"]


def test_long_names_get_a_line_of_their_own_once():
    table = Table(("CLAIM", "DEVICE", "NODE"))
    table.add(("namespace/claim", "driver/pool/device-0", "n"))
    table.add(("namespace/claim", "driver/pool/device-1", "n"))
    assert lines(table, 30) == [
        "CLAIM",
        "  DEVICE                NODE",
        "namespace/claim",
        "  driver/pool/device-0  n",
        "  driver/pool/device-1  n",
    ]


def test_otherwise_each_row_is_a_block():
    table = Table(("A", "B", "C"))
    table.add(("name", "b" * 20, "c\nd"))
    table.add(("other", "b", "c"))
    assert lines(table, 22) == [
        "name",
        "  b:",
        "    bbbbbbbbbbbbbbbbbbbb",
        "  c: c",
        "    d",
        "",
        "other",
        "  b: b",
        "  c: c",
    ]


def test_lines_of_cells_stay_level():
    table = Table(("HELD", "CLAIM"))
    table.add(("one two three four five six\nx", "a\nb"))
    assert lines(table, 31) == [
        "HELD                      CLAIM",
        "one two three four five   a",
        "six",
        "x                         b",
    ]


def test_blanks_inside_an_expression_stay():
    assert wrapped("a 'b  c' d", 9) == ["a 'b  c'", "d"]
