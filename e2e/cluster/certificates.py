"""Keys and certificates of one run, all of them fresh (EC P-256, valid for thirty days)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.cluster import addresses

VALID = timedelta(days=30)
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVER_ADDRESSES = ("127.0.0.1", addresses.GATEWAY, addresses.FIRST_SERVICE)


@dataclass(frozen=True)
class Authority:
    """A certificate authority: its key and its own certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def write_all(folder: Path, now: datetime | None = None) -> None:
    """Write every key and certificate of a control plane into `folder`.

    `ca` signs what servers show, `kubelet-client-ca` the API server's certificate towards the
    agent, `front-proxy-ca` that of aggregated APIs: with one authority for the last two uses the
    API server refuses to start, and one for the first two would make the kubelet client an admin.
    """
    now = now or datetime.now(UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authorities = {
        name: _authority(name, now) for name in ("ca", "kubelet-client-ca", "front-proxy-ca")
    }
    for name, authority in authorities.items():
        _write(folder, name, authority.key, authority.certificate)
    serving = (ExtendedKeyUsageOID.SERVER_AUTH, (*SERVER_NAMES, *SERVER_ADDRESSES))
    _issue(folder, "server", authorities["ca"], serving, now)
    _issue(folder, "kubelet", authorities["ca"], serving, now)
    client = (ExtendedKeyUsageOID.CLIENT_AUTH, ())
    _issue(folder, "kubelet-client", authorities["kubelet-client-ca"], client, now)
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / "service-accounts.key", key)
    (folder / "service-accounts.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _authority(name: str, now: datetime) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(name, name, key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def _issue(
    folder: Path,
    name: str,
    authority: Authority,
    use: tuple[x509.ObjectIdentifier, Sequence[str]],
    now: datetime,
) -> None:
    purpose, hosts = use
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    builder = _builder(name, str(issuer), key, now).add_extension(
        x509.ExtendedKeyUsage([purpose]), critical=False
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    _write(folder, name, key, builder.sign(authority.key, hashes.SHA256()))


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + VALID)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    _write_key(folder / f"{name}.key", key)
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / f"{name}.crt").write_bytes(pem)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
