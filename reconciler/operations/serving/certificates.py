"""TLS for the status port with a certificate from files, which is reloaded when they change."""

import asyncio
import ssl
from pathlib import Path
from typing import Never

import structlog

from reconciler.errors import Rejected

log = structlog.get_logger()

RENEWED_SECONDS = 10.0
"""Interval between checks of the files. Certificates are renewed days before they expire."""


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
