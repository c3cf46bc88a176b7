"""A server that knows our account by its token, and lets it do what roles and policies of `deploy` say."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.api.validation.status import Refusal
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.access import Guard, Roles
from reconciler.embedded.access.accounts import service_account
from reconciler.embedded.server.messages import Stream
from tests.tools import deployed_rights
from tests.tools.admission_policies import Policy, Review
from tests.tools.running_reconciler import Cluster

OURS = "a-token-of-ours"
PROMETHEUS = "a-token-of-prometheus"
LABELS: dict[str, str] = {}
"""Of the namespaces on this server"""


@dataclass
class Enforcing(ApiServer):
    """Judges requests by RBAC and, where our account writes, by the admission policies; keeps refusals."""

    mode: str = "allocate"
    refused: list[str] = field(default_factory=list)
    judged: list[Review] = field(default_factory=list)

    def __post_init__(self) -> None:
        tokens = {
            OURS: deployed_rights.ACCOUNTS.get(self.mode, deployed_rights.ACCOUNT),
            PROMETHEUS: service_account("monitoring", "prometheus-k8s"),
        }
        roles = [*deployed_rights.bound(self.mode), *deployed_rights.documents("observability")]
        super().__init__(guard=Guard(tokens, Roles.read(roles)))
        found = [
            one
            for one in deployed_rights.documents("admission")
            if one["kind"] == "ValidatingAdmissionPolicy"
        ]
        self._policies = [Policy(one) for one in found]
        self._over_http = False
        self._update = self._writer.update
        self._writer.update = self._admitted  # type: ignore[method-assign]

    def handle(self, request: Request) -> Response | Stream:
        self._over_http = True
        try:
            answer = super().handle(request)
        finally:
            self._over_http = False
        if isinstance(answer, Response) and answer.status in (401, 403, 422):
            self.refused.append(f"{request.method} {request.path}: {answer.body[:500]!r}")
        return answer

    def _admitted(self, target: Any, change: Callable[[Any], Any], **rest: Any) -> Any:
        def judged(shown: Any) -> Any:
            before = deepcopy(shown)
            new = change(shown)
            review = Review(
                old=before,
                new=new,
                resource=target.kind.plural,
                subresource=target.subresource,
                labels=LABELS,
            )
            self.judged.append(review)
            for policy in self._policies:
                for message in policy.refusals(review):
                    raise Refusal(403, "Forbidden", f"ValidatingAdmissionPolicy '{policy.name}': {message}")
            return new

        return self._update(target, judged if self._over_http else change, **rest)


def cluster(mode: str = "allocate") -> tuple[Cluster, Enforcing]:
    """The server, as tests look at it and as it is."""
    made = Cluster([])
    api = Enforcing(mode)
    made.api = api
    return made, api


def kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig whose token lies in a file, as that of a pod does."""
    token = folder / "token"
    token.write_text(OURS)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path
