"""TLS for the status port: a certificate from files, reloaded when they change, or a self-signed one."""

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Never

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from reconciler.errors import Rejected

log = structlog.get_logger()

RENEWED_SECONDS = 10.0
"""Interval between checks of the files. Certificates are renewed days before they expire."""
VALID = timedelta(days=365)
"""Validity of a self-signed certificate; each start creates a new one"""


class Certificate:
    """A server context that reloads its certificate from files; new connections use the new certificate."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises Rejected if the files are not a certificate and its key."""
        self._files = (certificate, key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._stamps = self._look()
        self._load()

    def renew(self) -> bool:
        """Load the files if they changed. If that raises Rejected, the old certificate stays in use."""
        stamps = self._look()
        if stamps == self._stamps:
            return False
        # Try the pair in a separate context: the one in use must not get half a pair.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
        self._load()
        self._stamps = stamps
        return True

    async def follow(self, every: float = RENEWED_SECONDS) -> Never:
        """Reload whenever the files change, until cancelled."""
        failing = False
        while True:
            await asyncio.sleep(every)
            try:
                if self.renew():
                    log.info("status port certificate reloaded", file=str(self._files[0]))
                failing = False
            except (Rejected, OSError) as exc:  # errors of ssl are OSErrors
                if not failing:
                    log.warning("status port certificate not reloaded", error=str(exc))
                failing = True

    def _look(self) -> tuple[tuple[int, int], ...]:
        try:
            found = [file.stat() for file in self._files]
        except OSError as exc:
            raise Rejected(f"certificate of the status port: {exc.filename}: {exc.strerror}") from exc
        return tuple((one.st_mtime_ns, one.st_ino) for one in found)

    def _load(self) -> None:
        try:
            self.context.load_cert_chain(*self._files)
        except OSError as exc:
            where = " and ".join(map(str, self._files))
            raise Rejected(f"certificate of the status port: {where}: {exc}") from exc


def self_signed(host: str, now: Callable[[], datetime]) -> ssl.SSLContext:
    """A context with a self-signed certificate; its key is not stored. It encrypts tokens but does not prove
    the identity of the server; certificate files do.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dra-reconciler")])
    begin = now() - timedelta(minutes=5)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + VALID)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.DNSName(host)]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with TemporaryDirectory() as folder:  # the standard library loads key pairs only from files
        pair = Path(folder, "pair.pem")
        pair.touch(mode=0o600)
        pair.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context.load_cert_chain(pair)
    return context
