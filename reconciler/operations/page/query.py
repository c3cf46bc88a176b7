"""The query of a page address: filters and page numbers; what matches it; and names for display.

Templates escape names; `shown` handles what escaping does not.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from urllib.parse import urlencode

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Mask, Rows
from reconciler.analysis.capacity.use import chosen, groups_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected, shortened
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.sources import PendingUnit, Sources
from reconciler.state.devices.snapshot import Snapshot

LONGEST = 512
"""Characters of a filter; the longest namespace/name of a claim is shorter"""
MOST_PAGES = 1_000_000
FILTERS = ("node", "driver", "claim", "reason", "by", "cell")
"""The first fields of a query"""
PAGES = {"page": 0, "machines": 1, "nodes": 1, "pending": 1}
"""The other ones, and which page is shown if none is named"""
NO_GROUP = "-"
"""The cell of devices without a name of their group"""


class Query(Struct, frozen=True):
    """Filters match parts of names and ignore case; a full name matches only itself. Empty matches all.

    `reason` matches only the whole reason of a pending claim.
    """

    node: str = ""
    driver: str = ""
    claim: str = ""
    reason: str = ""
    by: str = ""
    """What the heat map groups by; empty for the finest that can be looked at"""
    cell: str = ""
    """The open cell of the heat map"""
    page: int = 0
    """The page of the map; 0 leaves out a long map"""
    machines: int = 1
    """The page of machines"""
    nodes: int = 1
    """The page of nodes"""
    pending: int = 1
    """The page of pending claims with one reason"""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Query":
        """The parameters of an address. Invalid values are ignored."""
        filters = {name: given.get(name, "").strip()[:LONGEST] for name in FILTERS}
        pages = {name: max(_number(given.get(name, "")), least) for name, least in PAGES.items()}
        return replace(cls(), **filters, **pages)

    @property
    def filtered(self) -> bool:
        """Whether the devices are filtered."""
        return bool(self.node or self.driver or self.claim or self.cell)

    @property
    def without_node(self) -> "Query":
        return replace(self, node="")

    def pager(self, which: str, pages: int, at: str) -> dict[str, object]:
        """The links to the pages before and after this one, of a part with so many."""
        page = min(max(getattr(self, which), 1), pages)
        return {
            "page": page,
            "pages": pages,
            "previous": self.url(at=at, **{which: page - 1}) if page > 1 else "",
            "next": self.url(at=at, **{which: page + 1}) if page < pages else "",
        }

    def narrowed(self, at: str = "", **filters: str) -> str:
        """The address with these filters in addition, on the first pages."""
        return replace(self, **PAGES).url(at=at, **filters)

    def url(self, path: str = "/", at: str = "", **others: str | int) -> str:
        """The address of this query with some values replaced; `at` is the part to jump to."""
        other = replace(self, **others)
        pairs = [(name, getattr(other, name)) for name in FILTERS]
        numbers = [(name, getattr(other, name)) for name in PAGES]
        pairs += [(name, str(number) if number > PAGES[name] else "") for name, number in numbers]
        # An address that is not UTF-8 yields lone surrogates, which cannot be encoded.
        kept = [(name, value[:LONGEST].encode(errors="replace")) for name, value in pairs if value]
        fragment = f"#{at}" if at else ""
        return (f"{path}?{urlencode(kept)}" if kept else path) + fragment


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 0
    return min(number, MOST_PAGES)


def matches(wanted: str, name: str) -> bool:
    """Whether a filter matches a name."""
    return wanted.casefold() in name.casefold()


LONGEST_NAME = 96
"""Maximum length of a displayed name"""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of invisible characters and of those that change the direction of text"""


def shown(name: str, longest: int = LONGEST_NAME) -> str:
    """The name, with � for characters that are invisible or change the direction of text.

    A long name is cut in the middle, because its start and end are more specific.
    """
    if len(name) > longest:
        head = (longest - 1) // 2
        name = f"{name[:head]}…{name[head + 1 - longest :]}"
    if name.isascii() and name.isprintable():
        return name
    return "".join("�" if unicodedata.category(char) in _HIDDEN else char for char in name)


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    return shortened(map(shown, names), most)


def anchor(*parts: object) -> str:
    """A stable and safe element id for the parts."""
    return f"x{sha256(repr(parts).encode(errors='surrogatepass')).hexdigest()[:16]}"


MAX_CLAIMS = 200
"""Maximum claims of a filter; further matches are ignored"""
MAX_COMPARED = 20_000
"""Names that are compared with a filter; more would block the event loop"""
MAX_NODES = 32
"""Nodes whose shared pools are searched"""


def select_charts(query: Query, charts: Charts, snapshot: Snapshot, sources: Sources) -> Rows:
    """(n,) positions of the charts that match the filters."""
    mask = np.ones(len(charts.all), dtype=np.bool_)
    if query.cell:
        cell = rows_of_cell(query, snapshot)[charts.rows]
        mask &= np.bincount(charts.chart_of_row[cell], minlength=len(charts.all)) > 0
    if query.driver:
        mask &= _of_pools(_drivers(query.driver, snapshot), charts)
    if query.node:
        mask &= _of_pools(_nodes(query.node, snapshot), charts)
    if query.claim:
        here = np.zeros(len(charts.all), dtype=np.bool_)
        for claim in select_claims(query.claim, sources):
            for device in sources.devices_of(claim):
                here[list(charts.of_device(device, snapshot.fleet))] = True
        mask &= here
    return np.flatnonzero(mask)


def rows_of_cell(query: Query, snapshot: Snapshot) -> Mask:
    """(D,) the devices of the open cell of the heat map."""
    groups = groups_of(chosen(query.by, snapshot.topology), snapshot.topology)
    name = "" if query.cell == NO_GROUP else query.cell
    at = groups.names.index(name) if name in groups.names else -1
    found: Mask = groups.of == at
    return found


def select_claims(wanted: str, sources: Sources) -> list[ObjectKey]:
    """The claims of a filter: the one with this name, otherwise those whose names contain it."""
    namespace, slash, name = wanted.partition("/")
    if slash and sources.devices_of(exact := ObjectKey(namespace, name)):
        return [exact]
    found = (key for key in islice(sources.claims(), MAX_COMPARED) if matches(wanted, str(key)))
    return list(islice(found, MAX_CLAIMS))


def select_pending(query: Query, sources: Sources) -> Iterator[PendingUnit]:
    """Pending claims and pods whose claim or pod name matches the filter."""
    for one in islice(sources.pending(), MAX_COMPARED):
        if not query.claim or any(matches(query.claim, str(key)) for key in (one.key, *one.claims)):
            yield one


def _of_pools(pools: Mask, charts: Charts) -> Mask:
    return pools[charts.pool_of]


def _drivers(wanted: str, snapshot: Snapshot) -> Mask:
    names = [pool.id.driver for pool in snapshot.fleet.pools]
    return _named(wanted, names)


def named_by(wanted: str, names: list[str]) -> list[str]:
    """The names of a filter: the equal one, otherwise those that contain it."""
    return [wanted] if wanted in names else [name for name in names if matches(wanted, name)]


def _named(wanted: str, names: list[str]) -> Mask:
    selected = set(named_by(wanted, names))
    return np.array([name in selected for name in names], dtype=np.bool_)


def _nodes(wanted: str, snapshot: Snapshot) -> Mask:
    """(pools,) pools that the selected nodes can use: local and shared ones."""
    selected = {name for name in snapshot.topology.order if name == wanted}
    selected = selected or {name for name in snapshot.topology.order if matches(wanted, name)}
    pools = snapshot.fleet.pools
    mask = np.zeros(len(pools), dtype=np.bool_)
    for at, pool in enumerate(pools):
        # A pool may name a node that does not exist.
        mask[at] = pool.nodes is not None and any(
            node in selected or (not selected and matches(wanted, node)) for node in pool.nodes
        )
    for name in sorted(selected)[:MAX_NODES]:
        try:
            visible = snapshot.topology.view(name).pools
        except Rejected:  # an invalid selector; the doctor reports it
            continue
        mask[[snapshot.fleet.index[pool.pool] for pool in visible]] = True
    return mask
