"""The part that makes templates for rewritten pods."""

from collections.abc import Callable

from reconciler.api.migrate.map_file import read_map
from reconciler.api.migrate.mapping import mapping
from reconciler.cluster.client import Client
from reconciler.cluster.watch import Sink
from reconciler.control.intake import Intake
from reconciler.control.template_maker import TemplateMaker
from reconciler.settings import Settings


def template_maker_of(
    settings: Settings, intake: Intake, sink: Sink, client: Client, leads: Callable[[], bool]
) -> TemplateMaker | None:
    """None if no templates are to be made. Raises Malformed for a file that is no resource map."""
    if not settings.make_templates or settings.mode == "shadow":
        return None
    # What templates are named by does not depend on classes. A mistake in the file stops the start.
    resources = mapping((), read_map(settings.resource_map), str(settings.resource_map or ""))
    return TemplateMaker(intake, sink, client, resources=resources, leads=leads)
