"""Every knob: what it does, its unit, and why its default is what it is.

Flags win over the environment (`DRA_RECONCILER_` and the field's name), which wins over the file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, StringConstraints, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from reconciler.errors import Rejected

MAX_LENGTH = 2**20
"""Characters of a file with settings."""
_KEY = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"

Names = Annotated[frozenset[str], NoDecode]
"""Names; in the environment separated by commas."""


class Settings(BaseSettings):
    """How the reconciler runs. Frozen once read; a name that is not declared here is refused."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="DRA_RECONCILER_")

    server: str | None = None
    """URL of an API server that asks for no credentials, such as `kubectl proxy`. None: use a kubeconfig."""

    kubeconfig: str | None = None
    """Path of a kubeconfig. None: KUBECONFIG, then ~/.kube/config, then the service account of our pod."""

    context: str | None = None
    """Context of the kubeconfig. None: its current one."""

    insecure_skip_tls_verify: bool = False
    """Believe any certificate of the API server. A kubeconfig that says so is refused otherwise: a line in a
    file that was copied from somewhere must not open the connection to whoever is in between."""

    embedded: bool = False
    """Start an API server in this process and reconcile against it. Nobody else allocates there, so
    everything on it is ours."""

    mode: Literal["allocate", "shadow"] = "allocate"
    """`shadow` writes nothing at all: it compares what it would have decided with what the cluster's own
    scheduler does."""

    shadow_pending_seconds: float = Field(default=30.0, gt=0)
    """In shadow mode: how long a pod has to wait for its claims until it is told that we could have met them.
    Shorter would blame the scheduler for its normal latency."""

    pause: bool = False
    """Write nothing until restarted without it. Decisions go on, and wait to be written."""

    pause_config_map: Annotated[str, StringConstraints(pattern=_KEY)] | None = None
    """`NAMESPACE/NAME` of a ConfigMap that stops all writes at once while its data says `pause: "true"`. It
    is watched, and nothing is written before it was read. Need not exist."""

    audit_seconds: float = Field(default=1.0, gt=0)
    """Least time between two looks for counters that are over-committed and devices that exclude one another.
    It looks only after changes; devices that are held twice are told without delay."""

    embedded_port: int = Field(default=0, ge=0, le=65535)
    """Port of the embedded server. 0 takes a free one, which is printed. Not called `port`, because
    Kubernetes sets DRA_RECONCILER_PORT in every pod beside a Service named dra-reconciler."""

    all_claims: bool = False
    """Allocate every claim. Otherwise only those labelled `dra-reconciler.io/managed: "true"` and those
    of pods with our scheduling gate: claims are kube-scheduler's unless somebody says so."""

    own_drivers: Names = frozenset()
    """Drivers whose devices no other allocator gives out. The API protects a claim from two writers, but
    never a device; so without an owned driver or class nothing is written to a live cluster."""

    own_classes: Names = frozenset()
    """Device classes whose devices no other allocator gives out."""

    semantics: Literal["1.36", "1.37"] = "1.37"
    """The Kubernetes release whose rules apply where releases differ."""

    group_modes: Annotated[dict[str, Literal["kep-5963", "pairwise"]], NoDecode] = Field(default_factory=dict)
    """How compatibility groups are compared, by driver; `*` stands for all others. `kep-5963`, as Kubernetes
    does, unless a driver's author meant the groups of the earlier proposal: `pairwise`."""

    feature_gates: str = ""
    """Feature gates, as `A=true,B=false`. Those not named are on unless the server's release has them off
    by default: it drops the fields of features that are off."""

    koordinator: bool = False
    """Serve gated pods that request Koordinator's devices, too, from its Device objects. These devices are
    then ours alone: no scheduler with Koordinator's DeviceShare plugin may serve the same nodes."""

    koordinator_semantics: Literal["proposal", "upstream"] = "proposal"
    """Where Koordinator's proposals and its release differ, which of them counts."""

    search_steps: int = Field(default=10_000, ge=1)
    """Devices tried on one node before a decision gives up there; ten times as many for all nodes together.
    Counted, not timed, so that the same cluster gives the same answer on a slow machine."""

    writers: int = Field(default=32, ge=1)
    """Units whose writes may be under way at once. One write takes a server about two milliseconds, most
    of it waiting for its disk; beyond this they only queue up on its side."""

    write_seconds: float = Field(default=10.0, gt=0)
    """How long a write may take before it counts as unanswered."""

    backoff_base_seconds: float = Field(default=0.1, gt=0)
    """First pause of a unit that failed or waits; doubles each time, less up to half of it. Short, because
    most failures are conflicts, which are over when they are noticed."""

    backoff_cap_seconds: float = Field(default=60.0, gt=0)
    """Longest such pause. Units that wait for devices are woken by changes; asking again is only a net."""

    events: bool = True
    """Write an Event on claims and pods that wait, with what they lack. At most ten a second, beside the
    work; off saves the server those writes."""

    leader_elect: bool = False
    """Write only while we hold a Lease, so that several replicas may run of which one decides. Off, because
    who runs one process at a time needs no rights on Leases; deploy/ sets it."""

    lease_namespace: str = Field(default="kube-system", min_length=1)
    """Where the Lease is. Replicas and shards see each other only in one namespace."""

    lease_seconds: float = Field(default=15.0, gt=0)
    """For how long a renewal of the Lease holds. This and the next two are what the components of
    Kubernetes use."""

    renew_seconds: float = Field(default=10.0, gt=0)
    """After so long without a renewal we do not lead any more."""

    retry_seconds: float = Field(default=2.0, gt=0)
    """Between two renewals, or looks at whether the Lease is free."""

    shard: str = ""
    """`driver=NAME,pool-prefix=TEXT`: the part of the fleet that this process gives out. For fleets
    beyond one process; each shard elects its own leader, and no two may overlap."""

    drain_seconds: float = Field(default=25.0, ge=0)
    """How long begun writes may take after SIGTERM. Below the 30 s that Kubernetes gives a pod to end."""

    status_address: str = "127.0.0.1"
    """Address on which health, metrics and status are served. Beyond this machine they want a token, except
    for /livez and /readyz, and TLS: with a certificate made for the run unless files are named."""

    status_port: int = Field(default=0, ge=0, le=65535)
    """Port for the same. 0 takes a free one, which is logged: several may run on one machine."""

    status_token_file: Path | None = None
    """File with the token that lets a client ask. Read again when it changes."""

    status_token_review: bool = False
    """Let the cluster decide who may ask, by TokenReview and by SubjectAccessReview for `get` on the path as
    a non-resource URL. Needs the rights of the cluster role system:auth-delegator."""

    status_tls_cert: Path | None = None
    """Certificate chain of the status port, PEM. Read again when it changes, with the key."""

    status_tls_key: Path | None = None
    """Its key, PEM."""

    status_what_if: bool = False
    """Answer `POST /whatif` on the status port: whether claims would fit, if. Off, because an answer takes
    memory and some of the processor, most where the question brings slices. Never writes."""

    stalled_seconds: float = Field(default=60.0, gt=0)
    """After so long without anything done although something waits, /livez fails. Counts from the last answer
    of the server, so twice `write_seconds` is the least that is used."""

    doctor_seconds: float = Field(default=300.0, ge=0)
    """Between two rounds of the doctor, whose findings become metrics and, about pools, Events. It runs as a
    process of its own, which needs a few hundred MiB for some ten thousand devices. 0: no rounds."""

    journal: str | None = None
    """Folder for a journal of all that decisions are made from, and of the decisions: `dra-reconciler replay`
    makes them again. At most 16 files of about 64 MiB before compression. None: no journal."""

    traces: bool = False
    """OpenTelemetry traces of turns, decisions and requests, over OTLP. Needs dra-reconciler[otel]; where
    they go is said by OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of the SDK."""

    log_format: Literal["auto", "json", "text"] = "auto"
    """JSON lines, or text for people. `auto` is text on a terminal and JSON elsewhere."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which level on lines are logged. Decisions are `info`, the talk with the server is `debug`."""

    @field_validator("own_drivers", "own_classes", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        )

    @field_validator("group_modes", mode="before")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        """`DRIVER=MODE`, several as a list or separated by commas."""
        texts = value.split(",") if isinstance(value, str) else value
        if isinstance(texts, list | tuple):
            return {driver: mode for driver, _, mode in (text.strip().rpartition("=") for text in texts)}
        return value


def load(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """Settings from flags, the environment and a YAML file. Raises Rejected, naming the field."""
    written = _read(file) if file is not None else {}
    try:
        return Settings(**{**written, **EnvSettingsSource(Settings)(), **flags})
    except ValidationError as exc:
        problem = exc.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, problem["loc"]))
        if problem["type"] == "extra_forbidden":
            raise Rejected(f"there is no setting {where}") from exc
        raise Rejected(f"setting {where}: {problem['msg']}, got {problem['input']!r}") from exc


def _bounded(text: str) -> str:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"is longer than {MAX_LENGTH} characters")
    return text


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open(encoding="utf-8") as text:
            found = yaml.safe_load(_bounded(text.read(MAX_LENGTH + 1)))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        raise Rejected(f"settings file {file}: {exc}") from exc
    if not isinstance(found, dict | None):
        raise Rejected(
            f"settings file {file}: holds a {type(found).__name__} where names and values should be"
        )
    return found or {}
