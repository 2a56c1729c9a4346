"""Certificates for TLS, from an authority that only tests trust."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOUR = datetime.timedelta(hours=1)
PEM = serialization.Encoding.PEM
_USES = dict.fromkeys(
    (
        *("digital_signature", "content_commitment", "key_encipherment"),
        *("data_encipherment", "key_agreement", "key_cert_sign", "crl_sign"),
        *("encipher_only", "decipher_only"),
    ),
    False,
)


class Authority:
    """Signs certificates for 127.0.0.1; all files are in ``directory``."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = directory / f"{name}.pem"
        """What a client must trust."""
        root = self._builder(self._name, self._key)
        for extension in (
            x509.BasicConstraints(ca=True, path_length=None),
            x509.KeyUsage(**_USES | {"key_cert_sign": True}),
        ):
            root = root.add_extension(extension, critical=True)
        self.file.write_bytes(self._signed(root))

    def issue(self, name: str, passphrase: str = "") -> tuple[Path, Path]:
        """Files with a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = self._builder(_named(name), key).add_extension(
            x509.SubjectAlternativeName([address]), critical=False
        )
        encryption: serialization.KeySerializationEncryption
        encryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase.encode())
        files = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        files[0].write_bytes(self._signed(builder))
        files[1].write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return files

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - HOUR)
            .not_valid_after(now + HOUR)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(
                    self._key.public_key()
                ),
                False,
            )
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
