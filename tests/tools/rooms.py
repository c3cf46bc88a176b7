"""The rule of imports: which room may import which. `docs/architecture.md` shows it."""

LEVELS = (
    {"kernels", "aio", "errors"},
    {"api"},
    {"cel"},
    {"state"},
    {"allocation"},
    {"analysis", "control"},
    {"operations"},
    {"app"},
    {"plugins"},
    {"library"},
    {"cli"},
)
"""A room may import the rooms of all levels before its own."""

BESIDE = {
    "settings": {"errors"},
    "cluster": {"api", "aio", "errors", "settings"},
    "ha": {"api", "aio", "errors", "settings", "cel", "cluster"},
    "embedded": {"api", "cel", "errors"},
}
"""Rooms beside the levels, and what they may import."""

LOOKS_OUT = ("control", "operations", "app", "plugins", "library", "cli")
"""Rooms that may import settings, cluster and ha as well; only cli may import embedded."""


def room(module: str) -> str:
    """`kernels`, a room of `reconciler`, or empty for the program itself."""
    parts = module.split(".")
    return parts[0] if parts[0] == "kernels" else parts[1] if len(parts) > 1 else ""


def allowed(name: str) -> set[str]:
    """The rooms that a room may import, itself among them."""
    if name in BESIDE:
        return BESIDE[name] | {name}
    at = next(number for number, rooms in enumerate(LEVELS) if name in rooms)
    below = {name}.union(*LEVELS[:at])
    if name in LOOKS_OUT:
        below |= {"settings", "cluster", "ha"}
    return below | {"embedded"} if name == "cli" else below
