"""Ports of nodes that pods use. Source: core/v1, ContainerPort; FIT-7."""

from typing import NamedTuple

from reconciler.api.objects.core import Pod

ANY = "0.0.0.0"
"""All addresses of a node"""
_ALWAYS = "Always"


class Port(NamedTuple):
    """A port of a node."""

    protocol: str
    number: int
    address: str
    """Empty: on any address at all, for counting"""

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


def ports_of(pod: Pod) -> tuple[Port, ...]:
    """The ports of its node that a pod uses. Init containers that end do not count."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == _ALWAYS)
    found = []
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            # In the network of the node, the API server sets hostPort; manifests may lack it.
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number > 0:
                found.append(Port(port.protocol or "TCP", number, port.host_ip or ANY))
    return tuple(dict.fromkeys(found))


def conflicting(port: Port) -> tuple[Port, ...]:
    """What must not be in use at the node for a pod to use a port."""
    anywhere = port._replace(address="")
    return (anywhere,) if port.address == ANY else (port, port._replace(address=ANY))


def counted_as(port: Port) -> tuple[Port, ...]:
    """What is in use at the node when a pod uses a port."""
    return port, port._replace(address="")
