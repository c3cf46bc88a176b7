"""No write leaves by the door that the lease does not outlast."""

import pytest

from reconciler.cluster.transport import Request
from reconciler.errors import Retry
from reconciler.ha.elector import Bid, Elector
from reconciler.ha.fenced_transport import FencedTransport
from reconciler.ha.lease_record import Record, Terms
from reconciler.ha.shard import WHOLE
from tests.tools.scripted_transport import Scripted, ok

TERMS = Terms(lease=15.0, renew=10.0, retry=2.0, write=4.0)
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status"
EVENT = "/apis/events.k8s.io/v1/namespaces/default/events"


async def is_sent(method: str, path: str, *, at: float, seconds: float) -> bool:
    """Whether a request is sent so long after the lease was renewed that may take so many seconds."""
    elector = Elector("us", WHOLE, TERMS)
    elector.won(Bid(None, 0, 0.0), "1", sent=0.0, now=0.0)
    elector.observe([Record(WHOLE.lease, "1", "us", WHOLE, TERMS.lease, TERMS.write)], 0.0)
    behind = Scripted(ok({}))
    try:
        await FencedTransport(behind, elector, lambda: at).send(Request(method, path, timeout=seconds))
    except Retry:
        assert behind.requests == []
        return False
    return True


@pytest.mark.parametrize(
    ("method", "path", "at", "seconds", "sent"),
    [
        pytest.param("PATCH", CLAIM, 0.0, 14.9, True, id="the lease outlasts it"),
        pytest.param("PATCH", CLAIM, 0.0, 15.0, False, id="it may outlast the lease"),
        pytest.param("PATCH", CLAIM, 9.9, 5.0, True, id="late, and short"),
        pytest.param("PATCH", CLAIM, 9.9, 5.2, False, id="late, and not short enough"),
        pytest.param("PATCH", CLAIM, 10.0, 0.1, False, id="not renewed in time"),
        pytest.param("GET", CLAIM, 100.0, 60.0, True, id="reading is free"),
        pytest.param("POST", EVENT, 9.9, 60.0, True, id="an Event of the leader"),
        pytest.param("POST", EVENT, 10.0, 60.0, False, id="an Event of a former leader"),
    ],
)
async def test_a_write_starts_only_if_the_lease_outlasts_it(
    method: str, path: str, at: float, seconds: float, sent: bool
):
    assert await is_sent(method, path, at=at, seconds=seconds) is sent
