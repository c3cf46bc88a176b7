"""Text for terminals."""


def plain(text: str) -> str:
    """Escape control characters and characters that cannot be encoded."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """`1 claim`, `2 claims`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
