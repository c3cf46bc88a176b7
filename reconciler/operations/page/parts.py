"""Parts of the page as HTML, each with a version, and the panels that make them.

Parts with equal versions are equal.
"""

from abc import ABC, abstractmethod
from datetime import datetime
from hashlib import sha256
from typing import ClassVar, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from reconciler.api.validation.fields import age
from reconciler.operations.metrics.devices import STATES
from reconciler.operations.page.charts import Index
from reconciler.operations.page.drawing import TRACK_AT, Span, place
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import Sources

_UNKNOWN = "version-unknown"


class Part(Struct, frozen=True):
    """One part of the page."""

    id: str
    version: str
    html: Markup
    badge: str = ""
    """A few characters for the link to this part, such as a count"""


class Renderer:
    """Renders templates. Everything is escaped unless it is markup."""

    def __init__(self) -> None:
        self.env = Environment(
            loader=PackageLoader("reconciler.operations.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.env.filters |= {"place": _place, "box": _box}
        self.env.globals |= {"track_at": TRACK_AT, "states": STATES, "word": word, "age": _age}

    def part(
        self,
        name: str,
        template: str,
        values: dict[str, object],
        *,
        badge: str = "",
        now: datetime | None = None,
    ) -> Part:
        """Render a part. With `now` the template shows ages, which do not change the version."""
        if now is not None:
            version = version_of(repr(values))
            html = self.env.get_template(template).render(version=version, now=now, **values)
            return Part(name, version, Markup(html), badge)
        html = self.env.get_template(template).render(version=_UNKNOWN, **values)
        version = version_of(html)
        # The first match is the version of the part: names come later.
        return Part(name, version, Markup(html.replace(_UNKNOWN, version, 1)), badge)


def word(state: str) -> str:
    """A state of devices as `top` heads its column."""
    return "free" if state == "allocatable" else state


def version_of(text: str) -> str:
    """The version of a part with this content."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _place(number: float) -> Markup:
    """A coordinate with visible precision."""
    return Markup(place(number))


def _box(span: Span) -> Markup:
    """Position and size of a shape as attributes, in one call because there are many shapes."""
    x, y, width, height = place(span.x), place(span.y), place(span.width), place(span.height)
    return Markup(f'x="{x}" y="{y}" width="{width}" height="{height}"')


def _age(created: str, now: datetime) -> str:
    """An age as kubectl prints it; empty without a valid time."""
    try:
        return age(created, now) if created else ""
    except (ValueError, TypeError):  # TypeError: a time without a zone
        return ""


Area = Literal["head", "notes", "top", "who", "lists", "map"]
"""head and notes are above and below the filters, top is as wide as the page, who are side by side, lists are
beside the map"""


class Panel(ABC):
    """Makes one part of the page, and maybe parts inside it.

    To add one: a class, a template, and its place in `View`. Panels of plugins go to `page_routes`.
    """

    id: ClassVar[str]
    area: ClassVar[Area]
    title: ClassVar[str]
    nested: ClassVar[bool]

    def __init_subclass__(cls, *, part: str, area: Area, title: str = "", nested: bool = False) -> None:
        """`part` is the id of the part, `title` the text of the link to the panel, empty for none; `nested`
        says whether there are parts inside, which are updated by themselves.
        """
        cls.id, cls.area, cls.title, cls.nested = part, area, title, nested

    def __init__(self, sources: Sources, renderer: Renderer, index: Index) -> None:
        self.sources, self.renderer, self.index = sources, renderer, index

    @abstractmethod
    async def parts(self, query: Query, /) -> list[Part]:
        """The part, then those inside it; nothing if the panel has no data in this process."""
