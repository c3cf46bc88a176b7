"""What to set when the certificate of a server is refused. The library only says that it was."""

import ssl

import aiohttp

from reconciler.cluster.target import Target

_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_OTHER_NAME = {62, 64}
_NOT_VALID_NOW = {9, 10}
"""Codes of OpenSSL. Source: x509_vfy.h, X509_V_ERR_*"""


def certificate_refused(exc: BaseException) -> ssl.SSLCertVerificationError | None:
    """The refusal of a certificate that caused an error of a request; None for any other error."""
    if isinstance(exc, aiohttp.ClientConnectorCertificateError):
        inner: BaseException | None = exc.certificate_error
    elif isinstance(exc, aiohttp.ClientConnectorError):
        inner = exc.os_error
    else:
        inner = exc if isinstance(exc, ssl.SSLCertVerificationError) else exc.__cause__
    return inner if isinstance(inner, ssl.SSLCertVerificationError) else None


def explained(refused: ssl.SSLCertVerificationError, target: Target) -> str:
    """What is wrong with the certificate, and the setting that is missing or wrong."""
    return f"certificate verify failed at {target}: {refused.verify_message}: {_remedy(refused, target)}"


def _remedy(refused: ssl.SSLCertVerificationError, target: Target) -> str:
    code = refused.verify_code
    where = f"of cluster {target.cluster} in the kubeconfig"
    accept = "or pass --insecure-skip-tls-verify to accept any certificate"
    if code in _NOT_VALID_NOW:
        return "renew the certificate of the server, or correct the clock of this machine"
    if not target.cluster:
        if target.in_pod:
            return f"ca.crt of the service account does not verify it: use a kubeconfig, {accept}"
        return (
            "--server verifies with the authorities of this machine: use --kubeconfig, with "
            f"certificate-authority-data and the name of the server, {accept}"
        )
    if code in _OTHER_NAME:
        return f"set tls-server-name {where} to a name in the certificate"
    if code not in _UNKNOWN_AUTHORITY:
        return f"check certificate-authority-data {where}, {accept}"
    settings = target.settings()
    given = next(
        (name for name in ("certificate-authority-data", "certificate-authority") if name in settings), ""
    )
    if given:
        return f"{given} {where} is not the authority that signed it: set it to that one, {accept}"
    return f"set certificate-authority-data {where} to the authority that signed it, {accept}"
