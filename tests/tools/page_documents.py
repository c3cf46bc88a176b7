"""A page as a browser reads it: its elements and its text."""

from html.parser import HTMLParser

from tests.tools.watched_reconciler import Watched


class Seen(HTMLParser):
    """The elements of a document, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[len(self._inside) - 1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._inside):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]

    @property
    def charts(self) -> dict[str, str]:
        """Id -> version of each chart."""
        return {str(found["id"]): str(found["data-v"]) for found in self.all("article")}


async def page(seen: Watched, path: str = "/") -> Seen:
    answer = await seen.get(path)
    assert answer.status == 200, answer.text
    return Seen(answer.text)
