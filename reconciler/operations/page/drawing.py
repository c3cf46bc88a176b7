"""A scene as shapes with coordinates in SVG user units, for the template."""

from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct, field

from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.charts import Run, Scene, ShownDevice, Slots, lanes, runs
from reconciler.operations.page.query import listed, shown

WIDTH = 420
TRACK_AT, TRACK = 112, 240
"""Start and total width of the slots"""
LABEL = 17
"""Characters that fit in front of the slots"""
TALL, LOW, GAP = 26, 16, 5
CELL, CELLS_A_ROW = 26, 16
MOST_LANES = 16
MOST_COUNTERS = 16
MOST_SPANS = 40
"""Claims with their own span in a row of amounts"""
LETTER_WIDTH = 13
"""Minimum width for a letter"""


class Holder(Struct, frozen=True):
    """A claim on this chart."""

    claim: ObjectKey
    letter: str
    colour: int
    devices: tuple[str, ...]


class Span(Struct, frozen=True):
    """A piece of a row."""

    x: float
    y: float
    width: float
    height: float
    state: str
    title: str
    """Tooltip"""
    text: str = ""
    holder: Holder | None = None


class Label(Struct, frozen=True):
    """Text in the drawing."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    title: str = ""


class Drawing(Struct):
    """All shapes of one chart."""

    holders: tuple[Holder, ...]
    width: float = WIDTH
    height: float = 0
    labels: list[Label] = field(default_factory=list)
    tracks: list[tuple[float, float, float]] = field(default_factory=list)
    """y, height and width of the background of a row"""
    ticks: list[tuple[float, float, float]] = field(default_factory=list)
    """x, start y and end y"""
    spans: list[Span] = field(default_factory=list)
    note: str = ""
    """What is not drawn"""


def draw(scene: Scene) -> Drawing:
    """The drawing of a scene: slots with their holders, amounts, then every device by profile and slot."""
    made = Drawing(_holders(scene))
    by_claim = {holder.claim: holder for holder in made.holders}
    if scene.chart.set < 0:
        made.width = CELL * min(len(scene.devices), CELLS_A_ROW)
        _cells(scene, by_claim, made)
        return made
    left_out: list[str] = []
    for group in scene.slots:
        _slots(scene, group, by_claim, made)
    in_groups = {column for group in scene.slots for column in group.columns}
    amounts = [column for column in range(len(scene.counters)) if column not in in_groups]
    for column in amounts[:MOST_COUNTERS]:
        _amounts(scene, column, by_claim, made)
    if len(amounts) > MOST_COUNTERS:
        left_out.append(f"{len(amounts) - MOST_COUNTERS} more counters")
    for group in scene.slots[:1]:
        hidden = _lanes(scene, group, by_claim, made)
        if hidden:
            left_out.append(f"{hidden} more rows of devices")
    if not scene.slots:
        made.height += GAP
        _cells(scene, by_claim, made)
    made.note = f"Not drawn: {', '.join(left_out)}." if left_out else ""
    return made


def _holders(scene: Scene) -> tuple[Holder, ...]:
    """The claims with letters, in the order of their first slots if there are slots."""
    held: dict[ObjectKey, list[str]] = {}
    order = list(range(len(scene.devices)))
    if scene.slots:
        begin = (scene.draws[:, list(scene.slots[0].columns)] > 0).argmax(axis=1).tolist()
        order.sort(key=begin.__getitem__)
    for device in [scene.devices[at] for at in order]:
        for claim in device.claims:
            held.setdefault(claim, []).append(device.name)
    return tuple([
        Holder(claim, letters(at), colour(claim), tuple(names))
        for at, (claim, names) in enumerate(held.items())
    ])  # fmt: skip


def _slots(scene: Scene, group: Slots, by_claim: dict[ObjectKey, Holder], made: Drawing) -> None:
    """A row of slots; each is free or has the colour of its holder."""
    wide = TRACK / len(group.columns)
    top = made.height
    step = max(1, round(LETTER_WIDTH / wide + 0.4))
    for at, label in enumerate(group.labels):
        if at % step == 0:
            made.labels.append(Label(TRACK_AT + (at + 0.5) * wide, top + 11, shown(label, 4), "middle"))
    top += LOW
    made.labels.append(_name(group.name, top + TALL / 2 + 4))
    made.tracks.append((top, TALL, TRACK))
    made.ticks += [(TRACK_AT + at * wide, top, top + TALL) for at in range(1, len(group.columns))]
    for number, device in enumerate(scene.devices):
        if device.claims:
            for run in _runs(scene, number, group):
                made.spans.append(_span(device, run, wide, top, TALL, by_claim, inside=True))
    taken = sum(scene.totals[column] - scene.left[column] for column in group.columns)
    _rest(f"{len(group.columns) - taken} of {len(group.columns)} free", top + TALL / 2 + 4, made)
    made.height = top + TALL + GAP


def _amounts(scene: Scene, column: int, by_claim: dict[ObjectKey, Holder], made: Drawing) -> None:
    """A row with the amounts that claims consume of a counter."""
    total, left, top = scene.totals[column], scene.left[column], made.height
    name = scene.counters[column]
    made.labels.append(_name(name, top + 12))
    made.tracks.append((top, LOW, TRACK))
    scale = TRACK / max(total, total - left, 1)
    drawn = dict.fromkeys(by_claim, 0)
    for number, device in enumerate(scene.devices):
        if device.claims:
            drawn[device.claims[0]] = drawn[device.claims[0]] + int(scene.draws[number, column])
    at = float(TRACK_AT)
    for claim, number in [(claim, number) for claim, number in drawn.items() if number > 0][:MOST_SPANS]:
        holder, wide = by_claim[claim], number * scale
        title = f"{shown(name)}: {shown(str(claim))} consumes {scene.amount(column, number)}"
        made.spans.append(Span(at, top, wide, LOW, "held", title, _fitting(holder.letter, wide), holder))
        at += wide
    if 1 < total <= 16 and left >= 0:
        made.ticks += [(TRACK_AT + number * scale, top, top + LOW) for number in range(1, total)]
    _rest(_left(scene, column), top + 12, made)
    made.height = top + LOW + GAP


def _left(scene: Scene, column: int) -> str:
    return f"{scene.amount(column, scene.left[column])} free"


def _lanes(scene: Scene, group: Slots, by_claim: dict[ObjectKey, Holder], made: Drawing) -> int:
    """A row for each profile with all its placements. Returns the number of rows without space."""
    others = [column for column in range(len(scene.counters)) if column not in group.columns]
    spans = [tuple(_runs(scene, number, group)) for number in range(len(scene.devices))]
    width = scene.draws[:, list(group.columns)].sum(axis=1).tolist()
    profiles = [
        (device.profile, width[number], tuple(scene.draws[number, others].tolist()))
        for number, device in enumerate(scene.devices)
    ]
    rows = lanes(profiles, spans)
    wide = TRACK / len(group.columns)
    made.height += GAP
    for row in rows[:MOST_LANES]:
        top = made.height
        first = scene.devices[row[0]]
        made.labels.append(_name(first.profile or first.name, top + 12))
        made.tracks.append((top, LOW, TRACK))
        for number in row:
            for run in spans[number]:
                made.spans.append(_span(scene.devices[number], run, wide, top, LOW, by_claim, inside=False))
        free = sum(scene.devices[number].state == "allocatable" for number in row)
        _rest(f"{free} free", top + 12, made)
        made.height = top + LOW + GAP
    return max(len(rows) - MOST_LANES, 0)


def _cells(scene: Scene, by_claim: dict[ObjectKey, Holder], made: Drawing) -> None:
    """A square for each device without slots."""
    for number, device in enumerate(scene.devices):
        row, column = divmod(number, CELLS_A_ROW)
        x, y = column * CELL, made.height + row * CELL
        holder = by_claim.get(device.claims[0]) if device.claims else None
        text = _text(device, holder, CELL - 4)
        made.spans.append(Span(x, y, CELL - 4, CELL - 4, device.state, about(device), text, holder))
    made.height += -(-len(scene.devices) // CELLS_A_ROW) * CELL


def _runs(scene: Scene, number: int, group: Slots) -> Iterator[Run]:
    return iter(runs((scene.draws[number, list(group.columns)] > 0).tolist()))


def _span(
    device: ShownDevice,
    run: Run,
    wide: float,
    top: float,
    height: float,
    by_claim: dict[ObjectKey, Holder],
    *,
    inside: bool,
) -> Span:
    holder = by_claim.get(device.claims[0]) if device.claims else None
    x, width = TRACK_AT + run.start * wide, (run.stop - run.start) * wide
    text = _text(device, holder, width)
    if inside and holder is not None and width > 8 * LETTER_WIDTH:
        text = f"{text} {shown(holder.claim.name, int(width / 7) - 4)}"
    return Span(x + 1, top + 1, width - 2, height - 2, device.state, about(device), text, holder)


def _text(device: ShownDevice, holder: Holder | None, width: float) -> str:
    if holder is None:
        return ""
    more = "+" if len(device.claims) > 1 else ""
    return _fitting(f"{holder.letter}{more}", width)


def _fitting(text: str, width: float) -> str:
    return text if width >= LETTER_WIDTH + 8 * (len(text) - 1) else ""


def _name(name: str, y: float) -> Label:
    return Label(0, y, shown(name, LABEL), title=shown(name) if len(name) > LABEL else "")


def _rest(text: str, y: float, made: Drawing) -> None:
    made.labels.append(Label(WIDTH, y, shown(text, 12), "end"))


def place(number: float) -> str:
    """A coordinate with visible precision."""
    return f"{number:.1f}".removesuffix(".0")


def about(device: ShownDevice) -> str:
    """A device in one line."""
    name = shown(device.name)
    parts = [f"{name} ({shown(device.profile)})" if device.profile else name]
    match device.state:
        case "held" | "shared":
            who = listed(list(map(str, device.claims)), 4)
            parts.append(f"{'held' if device.state == 'held' else 'shared'} by {who}")
            parts += [f"{amount} {shown(key)} consumed" for key, amount in device.consumed]
        case "allocatable":
            parts.append("free")
        case "tainted":
            parts.append("tainted: free, but only for claims with a toleration")
        case _:
            parts.append("blocked: its counters or an excluding device are in use, or its pool is invalid")
    return ", ".join(parts)


LIGHT = (
    "#9c3d2b", "#8a5200", "#6b6000", "#3f6b12", "#00704d", "#006d75",
    "#0b66a0", "#3f5bb5", "#6a4db8", "#8b40a3", "#a0357c", "#a83252",
)  # fmt: skip
"""Fills of a light page, for white text"""
DARK = (
    "#f2a391", "#e5ac62", "#cdbb50", "#a3c871", "#68d1a6", "#5dcdd6",
    "#79c2f5", "#a4b6fb", "#c3abf9", "#dfa3f0", "#f29fd3", "#f8a1b4",
)  # fmt: skip
"""Fills of a dark page, for dark text"""


def colour(claim: ObjectKey) -> int:
    """Position of the claim's colour. Claims may share colours, so on charts each also has a letter."""
    return sha256(str(claim).encode(errors="surrogatepass")).digest()[0] % len(LIGHT)


def rules() -> str:
    """CSS: the colours as custom properties, and a class for each."""
    light = "".join(f"--c{at}:{value};" for at, value in enumerate(LIGHT))
    dark = "".join(f"--c{at}:{value};" for at, value in enumerate(DARK))
    classes = "".join(f".c{at}{{--own:var(--c{at})}}" for at in range(len(LIGHT)))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}"


def letters(number: int) -> str:
    """0, 1, ... as A, B, ..., Z, AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
