"""The readme of the package: README.md with absolute links, because a package index has no other files."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A relative link or picture of Markdown"""


def absolute(text: str, repository: str, version: str) -> str:
    """The text with links to the files of this release; pictures as they are, without a page around them."""

    def link(found: re.Match[str]) -> str:
        picture, label, path = found.groups()
        return f"{picture}[{label}]({repository}/{'raw' if picture else 'blob'}/v{version}/{path})"

    return _LINK.sub(link, text)


class CustomMetadataHook(MetadataHookInterface):
    """Adds the readme."""

    def update(self, metadata: dict) -> None:  # type: ignore[type-arg]
        """Called by hatchling with the `project` table."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        made = absolute(text, metadata["urls"]["Repository"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": made}
