"""Certificates of a local cluster: authorities, servers, clients; elliptic keys, a year long."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

_LIFE: Final = dt.timedelta(days=365)
_SKEW: Final = dt.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `name.crt` and `name.key` (owner only); give their paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_text(self.certificate)
        write_secret(key, self.key)
        return certificate, key


def write_secret(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, from its first moment on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


class Authority:
    """A certificate authority made for one cluster."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def pair(self) -> Pair:
        """Its own certificate and key, for whoever is to sign in its name."""
        return Pair(self.pem, _private_pem(self._key))

    def issue(
        self, name: str, *, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
    ) -> Pair:
        """Issue a certificate: `groups` are what Kubernetes reads as such, `hosts` its names.

        It is good for servers and clients: etcd's own gateway calls etcd with the server's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(name, groups), self._name, key).add_extension(
            x509.ExtendedKeyUsage(both), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM).decode(), _private_pem(key)
        )


def signing_key() -> tuple[str, str]:
    """Make a key for ServiceAccount tokens: private and public PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return _private_pem(key), public.decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _name(common: str, groups: tuple[str, ...]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
