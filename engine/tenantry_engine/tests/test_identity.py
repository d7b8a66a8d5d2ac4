import ipaddress

import pytest

from tenantry_api.choices import UnknownTenant
from tenantry_engine.config import EngineConfig
from tenantry_engine.identity import Outcome, Refusal, identify, refusal, trusted
from tenantry_engine.tests.policies import a_config

GATEWAY = "10.1.2.3"
LONGEST = "g" * 128


def headers(*values: bytes, name: bytes = b"x-tenant-id") -> list[tuple[bytes, bytes]]:
    return [(b"host", b"engine"), *((name, value) for value in values)]


@pytest.mark.parametrize(
    ("given", "peer", "expected"),
    [
        pytest.param(headers(b"gold"), GATEWAY, ("gold", Outcome.OK), id="listed"),
        pytest.param(headers(b"default"), GATEWAY, ("default", Outcome.OK), id="default by name"),
        pytest.param(headers("größe".encode()), GATEWAY, ("größe", Outcome.OK), id="utf-8"),
        pytest.param(headers(b"team a"), GATEWAY, ("team a", Outcome.OK), id="space inside"),
        pytest.param(headers(b"a|b"), GATEWAY, ("a|b", Outcome.OK), id="bar inside"),
        pytest.param(headers(LONGEST.encode()), GATEWAY, (LONGEST, Outcome.OK), id="128 long"),
        pytest.param(headers(), GATEWAY, ("default", Outcome.ABSENT), id="absent"),
        pytest.param(headers(), "8.8.8.8", ("default", Outcome.ABSENT), id="absent, stranger"),
        pytest.param(
            headers(b"gold", name=b"x-tenant"),
            GATEWAY,
            ("default", Outcome.ABSENT),
            id="other header",
        ),
        pytest.param(headers(b"gold"), "8.8.8.8", ("default", Outcome.UNTRUSTED), id="stranger"),
        pytest.param(headers(b"gold"), None, ("default", Outcome.UNTRUSTED), id="unix socket"),
        pytest.param(
            headers(b"gold"), "testclient", ("default", Outcome.UNTRUSTED), id="no address"
        ),
        pytest.param(headers(b"silver"), GATEWAY, ("default", Outcome.UNKNOWN), id="not listed"),
        pytest.param(headers(b"Gold"), GATEWAY, ("default", Outcome.UNKNOWN), id="case counts"),
        pytest.param(headers(b""), GATEWAY, ("default", Outcome.MALFORMED), id="empty"),
        pytest.param(
            headers(b" gold"), GATEWAY, ("default", Outcome.MALFORMED), id="space in front"
        ),
        pytest.param(headers(b"go\tld"), GATEWAY, ("default", Outcome.MALFORMED), id="tab"),
        pytest.param(headers(b"go\x00ld"), GATEWAY, ("default", Outcome.MALFORMED), id="null byte"),
        pytest.param(
            headers(b"gr\xf6\xdfe"), GATEWAY, ("default", Outcome.MALFORMED), id="latin-1"
        ),
        pytest.param(
            headers("a\u202eb".encode()),
            GATEWAY,
            ("default", Outcome.MALFORMED),
            id="direction mark",
        ),
        pytest.param(headers(b"g" * 129), GATEWAY, ("default", Outcome.MALFORMED), id="129 long"),
        pytest.param(headers(b"gold", b"free"), GATEWAY, ("default", Outcome.MALFORMED), id="two"),
        pytest.param(
            headers(b"gold", b"gold"), GATEWAY, ("default", Outcome.MALFORMED), id="twice"
        ),
        pytest.param(headers(b"other"), GATEWAY, ("default", Outcome.MALFORMED), id="other"),
    ],
)
def test_a_request_is_identified(
    given: list[tuple[bytes, bytes]], peer: str | None, expected: tuple[str, Outcome]
) -> None:
    config = a_config("gold", "free", "größe", "team a", "a|b", LONGEST)
    assert identify(given, peer, config) == expected


def test_the_forwarded_address_is_never_believed() -> None:
    given = [
        *headers(b"gold"),
        (b"x-forwarded-for", GATEWAY.encode()),
        (b"forwarded", b"for=10.0.0.1"),
    ]
    assert identify(given, "8.8.8.8", a_config()) == ("default", Outcome.UNTRUSTED)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"anyone", ("anyone", Outcome.OK)),
        (b"gold", ("gold", Outcome.OK)),
        (b"gold, gold", ("default", Outcome.MALFORMED)),
    ],
)
def test_where_only_weights_are_given_every_name_is_a_tenant(
    value: bytes, expected: tuple[str, Outcome]
) -> None:
    assert identify(headers(value), GATEWAY, a_config(open_tenants=True)) == expected


def test_without_trusted_peers_everybody_is_default() -> None:
    config = EngineConfig()
    assert identify(headers(b"gold"), "127.0.0.1", config) == ("default", Outcome.UNTRUSTED)


def test_the_header_can_have_another_name() -> None:
    config = a_config(header="X-Customer")
    assert identify(headers(b"gold", name=b"x-customer"), GATEWAY, config) == ("gold", Outcome.OK)


@pytest.mark.parametrize(
    ("peer", "network", "expected"),
    [
        ("10.255.0.1", "10.0.0.0/8", True),
        ("11.0.0.1", "10.0.0.0/8", False),
        ("::ffff:10.0.0.1", "10.0.0.0/8", True),
        ("::1", "::1/128", True),
        ("fd00::7", "fd00::/8", True),
        ("fe80::1%eth0", "10.0.0.0/8", False),
        ("", "0.0.0.0/0", False),
    ],
)
def test_a_peer_is_trusted_by_network(peer: str, network: str, expected: bool) -> None:
    assert trusted(peer, [ipaddress.ip_network(network)]) is expected


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.OK, None),
        (Outcome.ABSENT, None),
        (Outcome.UNTRUSTED, None),
        (Outcome.UNKNOWN, Refusal.UNKNOWN_TENANT),
        (Outcome.MALFORMED, Refusal.MALFORMED_TENANT),
    ],
)
def test_only_names_that_are_no_tenants_are_refused(
    outcome: Outcome, reason: Refusal | None
) -> None:
    assert refusal(outcome, a_config(unknown_tenant=UnknownTenant.REFUSE)) is reason
    assert refusal(outcome, a_config()) is None
