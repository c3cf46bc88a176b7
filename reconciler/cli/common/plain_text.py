"""Text that a terminal shows and does not obey."""


def plain(text: str) -> str:
    """`text` with escapes in place of control characters and of what cannot be encoded."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
