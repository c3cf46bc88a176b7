"""Makes the templates that rewritten pods name. It never changes or deletes any."""

import asyncio
from collections.abc import Callable, Iterator

import structlog
from msgspec import Struct, field

from reconciler.api.migrate.pods import Template, template_named
from reconciler.api.migrate.special_claims import Resources
from reconciler.api.migrate.workloads import template_object
from reconciler.api.objects.changes import Notice, versions
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import NAMESPACE, TEMPLATE
from reconciler.cluster.watch import Sink
from reconciler.control.intake import Intake
from reconciler.errors import Conflict, Gone, Rejected, Retry

log = structlog.get_logger()

LABEL = "dra-reconciler.io/rewrite-resources"
"""Of namespaces whose pods are rewritten"""
MANAGED = {"app.kubernetes.io/managed-by": "dra-reconciler"}
"""Labels of templates that are made here, for people: nothing reads them"""
EVERY = 1.0
"""Seconds between two looks at the pods that still have no claim"""
AGAIN = 30.0
"""Seconds after which the same template is tried again. It may exist, and its claims take a moment"""


class TemplateMaker(Struct, eq=False):
    """Takes the place of the sink of all watches, notes pods without claims, and passes every change on.

    `resources` says what names stand for, `leads` whether this process may write.
    """

    _intake: Intake
    _sink: Sink
    _client: Client
    resources: Resources
    leads: Callable[[], bool]
    _pods: set[ObjectKey] = set()
    """Pods of which an entry has no claim yet"""
    _noted: asyncio.Event = field(default_factory=asyncio.Event)
    _tried: dict[ObjectKey, float] = {}
    """When each template was tried, by the clock of the loop"""
    _problems: dict[ObjectKey, str] = {}

    def take(self, change: Notice) -> None:
        """The sink of every watch: apply the change, then note its pods."""
        self._sink(change)
        for _, pod in versions(change, Pod):
            if pod is not None:
                self._note(pod)

    async def run(self) -> None:
        """Make templates until cancelled. A request that is cancelled may have made one."""
        self._intake.wanted[NAMESPACE.kind].set()
        await self._intake.listed.wait()
        while True:
            await self._noted.wait()
            if self.leads():
                await self._make_all()
            if not self._pods:
                self._noted.clear()
            await asyncio.sleep(EVERY)

    def _note(self, pod: Pod) -> None:
        if pod.spec.resource_claims and any(_missing(pod)):
            self._pods.add(pod.key)
            self._noted.set()

    async def _make_all(self) -> None:
        """Make what is missing now; forget the pods that have their claims."""
        wanted: dict[ObjectKey, Template] = {}
        classes = self._intake.store.supply.classes
        for key in list(self._pods):
            pod = self._intake.store.pods.get(key)
            names = [] if pod is None else list(_missing(pod))
            if not names:
                self._pods.discard(key)
            elif self._intake.nodes.residents.namespaces.labels_of(key.namespace).get(LABEL) == "true":
                for name in names:
                    template = template_named(name, self.resources)
                    if template is not None and template.wanted.device_class in classes:
                        wanted[ObjectKey(key.namespace, name)] = template
        now = asyncio.get_running_loop().time()
        self._tried = {key: at for key, at in self._tried.items() if at + AGAIN > now}
        for key, template in wanted.items():
            if key not in self._tried:
                self._tried[key] = now
                await self._make(key, template)

    async def _make(self, key: ObjectKey, template: Template) -> None:
        try:
            await self._client.create(TEMPLATE, _object(key, template))
        except Conflict:
            pass  # it exists: ours or not, it stays as it is
        except (Rejected, Gone) as exc:
            if self._problems.get(key) != str(exc):
                self._problems[key] = str(exc)
                log.warning("template not made", template=str(key), error=str(exc), remedy=_REMEDY)
            return
        except Retry:  # paused, or the server is busy: soon again
            del self._tried[key]
            return
        else:
            device_class = template.wanted.device_class
            log.info("template made", template=str(key), device_class=device_class, devices=template.devices)
        self._problems.pop(key, None)


_REMEDY = "let the account create resourceclaimtemplates (deploy/components/templates), or make it by hand"


def _missing(pod: Pod) -> Iterator[str]:
    """The templates for which a pod that still runs, or will run, has no claim."""
    if pod.finished or pod.metadata.deletion_timestamp is not None:
        return
    claims = pod.claim_names()
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name is not None and claims.get(entry.name, "") is None:
            yield entry.resource_claim_template_name


def _object(key: ObjectKey, template: Template) -> Raw:
    made = template_object(template, key.namespace)
    made["metadata"] |= {"labels": MANAGED}
    return made
