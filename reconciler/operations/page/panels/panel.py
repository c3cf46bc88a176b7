"""The interface of a panel. To add one: a file here, a template, and a line in `view.panels`."""

from typing import ClassVar, Literal, Protocol

from reconciler.operations.page.parts import Part
from reconciler.operations.page.query import Query

Area = Literal["head", "notes", "top", "lists", "map"]
"""head and notes are above and below the filters, top is as wide as the page, lists are beside the map"""


class Panel(Protocol):
    """Makes one part of the page, and maybe parts inside it."""

    id: ClassVar[str]
    area: ClassVar[Area]
    title: ClassVar[str]
    """The text of the link to the panel; empty for none"""
    nested: ClassVar[bool]
    """Whether there are parts inside, which are updated by themselves"""

    async def parts(self, query: Query, /) -> list[Part]:
        """The part, then those inside it; nothing if the panel has no data in this process."""
        ...
