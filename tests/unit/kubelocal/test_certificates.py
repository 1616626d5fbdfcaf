"""Certificates that verify, and files nobody else can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from kubelocal import kubeconfig
from kubelocal.pki import Authority, signing_key

if TYPE_CHECKING:
    from pathlib import Path


def test_a_certificate_is_its_authoritys_and_carries_names_and_groups() -> None:
    """Groups are organisations, as Kubernetes reads them."""
    authority = Authority("test")
    pair = authority.issue("me", groups=("system:masters",), hosts=("127.0.0.1", "localhost"))
    certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pem.encode()))
    subject = certificate.subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["me"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [a.value for a in groups] == ["system:masters"]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_keys_and_kubeconfigs_are_their_owners_alone(tmp_path: Path) -> None:
    """Also where the file was there before with wider rights."""
    pair = Authority("test").issue("me")
    _, key = pair.write(tmp_path, "me")
    config = tmp_path / "sub" / "kubeconfig"
    kubeconfig.write(config, "me", kubeconfig.with_token("https://x", "CA", "secret"), "team")
    config.chmod(0o644)
    kubeconfig.write(config, "me", kubeconfig.with_token("https://x", "CA", "secret"), "team")
    assert key.stat().st_mode & 0o777 == 0o600
    assert config.stat().st_mode & 0o777 == 0o600
    read = yaml.safe_load(config.read_text())
    assert read["users"] == [{"name": "me", "user": {"token": "secret"}}]
    assert read["contexts"][0]["context"]["namespace"] == "team"
    assert read["clusters"][0]["cluster"]["server"] == "https://x"


def test_signing_keys_differ() -> None:
    """Each cluster has its own: a token of one is worth nothing in another."""
    assert signing_key() != signing_key()
