"""Certificates and node keys for a federation on loopback."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(folder: Path) -> None:
    """ca.crt, server.crt and server.key: an authority and a certificate for 127.0.0.1, valid for a day."""
    authority_key = ec.generate_private_key(ec.SECP384R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedsi loopback authority")])
    server_key = ec.generate_private_key(ec.SECP384R1())
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    _write(folder / "ca.crt", _certificate(authority, authority_key, authority, authority_key, None))
    _write(folder / "server.crt", _certificate(server, server_key, authority, authority_key, names))
    pem = server_key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(folder / "server.key", pem)


def write_node_key(folder: Path, name: str) -> None:
    """NAME.key and NAME.pub: an ECDSA key on P-384 in OpenSSH's format, as `ssh-keygen -t ecdsa -b 384` writes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write(
        folder / f"{name}.key",
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()),
    )
    _write(
        folder / f"{name}.pub",
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH),
    )


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: x509.SubjectAlternativeName | None,
) -> bytes:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
