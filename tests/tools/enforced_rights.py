"""A server that knows our account by its token, and lets it do what roles and policies of `deploy` say."""

from pathlib import Path

from reconciler.embedded import Request, Response
from reconciler.embedded.accounts import service_account
from reconciler.embedded.routing import Stream
from tests.tools import deployed_rights
from tests.tools.http_servers import write_kubeconfig
from tests.tools.policed_server import KINDS, Policed
from tests.tools.running_reconciler import Cluster

OURS = "a-token-of-ours"
PROMETHEUS = "a-token-of-prometheus"


class Enforcing(Policed):
    """Has the roles and policies of `deploy` for a mode, and keeps what it refused."""

    def __init__(self, mode: str = "allocate") -> None:
        tokens = {
            OURS: deployed_rights.ACCOUNTS.get(mode, deployed_rights.ACCOUNT),
            PROMETHEUS: service_account("monitoring", "prometheus-k8s"),
        }
        super().__init__(tokens)
        self.refused: list[str] = []
        names = {kind.kind for kind in KINDS}
        added = (*deployed_rights.documents("observability"), *deployed_rights.policies())
        deployed = (*deployed_rights.bound(mode), *added)
        self.load(one for one in deployed if one["kind"] in names)

    def handle(self, request: Request) -> Response | Stream:
        answer = super().handle(request)
        if isinstance(answer, Response) and answer.status in (401, 403, 422):
            self.refused.append(f"{request.method} {request.path}: {answer.body[:500]!r}")
        return answer


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
    return Path(write_kubeconfig(folder / "config", {"server": server}, u={"tokenFile": str(token)}))
