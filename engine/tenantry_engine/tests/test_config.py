import ipaddress
from collections.abc import Callable

import pytest

from tenantry_api import document, parse
from tenantry_api.choices import Isolation, Mode, UnknownTenant
from tenantry_engine.config import LOOPBACK, ConfigError, EngineConfig, load, metrics_port
from tenantry_engine.tests.policies import a_body, a_text

SHARE = "VLLM_SCHEDULER_TENANT_SHARE"


def reading(text: str) -> Callable[[str], str]:
    return lambda _path: text


def nothing(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def of_share(text: str, **environ: str) -> EngineConfig:
    return load({SHARE: text, **environ}, nothing)


def test_a_policy_file_says_everything() -> None:
    text = a_text(
        {"gold": 3, "free": 0},
        unknownTenant="Refuse",
        scheduling={"mode": "Observe", "stepBudget": "25ms"},
        kvCache={"isolation": "Shared"},
        identity={"header": "X-Customer", "trustedPeers": ["10.0.0.0/8"]},
    )
    found = load({"TENANTRY_POLICY": "p.json"}, reading(text))
    assert found.policy == "chat"
    assert found.tenants == ("gold", "free")
    assert (found.weight_of("gold"), found.weight_of("free")) == (3.0, 0.0)
    assert found.weight_of("default") == 1.0
    assert found.known == ("gold", "free", "default")
    assert found.mode is Mode.OBSERVE
    assert found.step_budget == 0.025
    assert found.isolation is Isolation.SHARED
    assert found.unknown_tenant is UnknownTenant.REFUSE
    assert (found.header, found.trusted_peers) == (
        "X-Customer",
        (ipaddress.ip_network("10.0.0.0/8"),),
    )
    assert not found.open_tenants


def test_the_hash_is_that_of_the_canonical_document() -> None:
    found = load({"TENANTRY_POLICY": "p.json"}, reading(a_text()))
    expected = document.policy_hash(document.canonical(parse.policy(a_body())))
    assert found.hash == expected


def test_a_tenant_of_a_group_keeps_it() -> None:
    text = a_text().replace('"weight": 3', '"weight": 3, "kvCache": {"group": "team-a"}')
    assert load({"TENANTRY_POLICY": "p.json"}, reading(text)).groups == {"gold": "team-a"}


def test_the_policy_wins_over_the_variables_and_says_so_once() -> None:
    environ = {"TENANTRY_POLICY": "p", SHARE: "nonsense", "TENANTRY_TENANT_HEADER": "X-Me"}
    found = load(environ, reading(a_text()))
    assert found.weights == {"gold": 3.0, "free": 1.0}
    assert [notice for notice in found.notices if SHARE in notice] == [
        f"{SHARE} has no effect because TENANTRY_POLICY is set: the policy wins"
    ]
    assert sum("TENANTRY_TENANT_HEADER" in notice for notice in found.notices) == 1


@pytest.mark.parametrize("in_cluster", [False, True])
def test_fields_for_a_cluster_are_named_outside_of_one(in_cluster: bool) -> None:
    text = a_text(gpu={"sharing": "MPS", "share": "0.5"}, weight=2)
    environ = {"TENANTRY_POLICY": "p"}
    if in_cluster:
        environ["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    notices = load(environ, reading(text)).notices
    expected = (
        "only a cluster can honour these fields, ignored here: spec.model, spec.gpu, spec.weight"
    )
    assert (expected in notices) is not in_cluster


def test_what_this_version_does_not_enforce_is_named() -> None:
    notices = load({"TENANTRY_POLICY": "p"}, reading(a_text())).notices
    assert any("does not enforce: spec.scheduling.tokenDelay" in notice for notice in notices)


def test_three_mistakes_are_one_message_with_three_paths() -> None:
    text = a_text(weight=-1, gpu={"sharing": "Half"}, unknownTenant="Maybe")
    with pytest.raises(ConfigError) as caught:
        load({"TENANTRY_POLICY": "p.yaml"}, reading(text))
    message = str(caught.value)
    assert "p.yaml" in message
    assert all(path in message for path in ("spec.weight", "spec.gpu", "spec.unknownTenant"))


def test_a_bare_spec_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="bare spec"):
        load({"TENANTRY_POLICY": "p"}, reading("model: {name: m}"))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"TENANTRY_POLICY=/no/where .*No such file"):
        load({"TENANTRY_POLICY": "/no/where"}, nothing)


@pytest.mark.parametrize(
    ("text", "weights", "rest"),
    [
        ("gold=3,free=1", {"gold": 3.0, "free": 1.0, "default": 1.0}, 1.0),
        (" gold = 0.6 , free = 0.4 ", {"gold": 0.6, "free": 0.4, "default": 1.0}, 1.0),
        ("gold=3,*=2", {"gold": 3.0, "default": 1.0}, 2.0),
        ("default=5,gold=1", {"default": 5.0, "gold": 1.0}, 1.0),
        ("0.6", {"default": 0.6}, 1.0),
    ],
)
def test_the_share_variable_gives_weights(
    text: str, weights: dict[str, float], rest: float
) -> None:
    found = of_share(text)
    assert (dict(found.weights), found.weight_of("somebody")) == (weights, rest)
    assert found.open_tenants
    assert (found.header, found.trusted_peers) == ("X-Tenant-ID", LOOPBACK)


def test_a_bare_share_comes_with_a_notice() -> None:
    assert any("no effect" in notice for notice in of_share("0.6").notices)
    assert of_share("gold=1").notices == ()


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("", "no share"),
        ("=1", "'=1'"),
        ("gold=", "'gold='"),
        ("gold", "'gold'"),
        ("gold=0,free=1", "'gold=0'"),
        ("gold=-1", "'gold=-1'"),
        ("gold=nan", "'gold=nan'"),
        ("gold=inf", "'gold=inf'"),
        ("gold=1,gold=2", "'gold=2'"),
        ("gold=1,,free=1", "empty"),
        ("gold=1,free", "'free'"),
        ("gold=3/4", "'gold=3/4'"),
    ],
)
def test_a_bad_share_is_one_sentence_that_names_the_item(text: str, item: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_share(text)
    message = str(caught.value)
    assert message.startswith(SHARE)
    assert item in message
    assert "\n" not in message


def test_the_trusted_peers_and_the_header_can_be_set_with_the_share_variable() -> None:
    found = of_share(
        "gold=1", TENANTRY_TRUSTED_PEERS="10.0.0.0/8, fd00::/8", TENANTRY_TENANT_HEADER="X-Customer"
    )
    assert [str(network) for network in found.trusted_peers] == ["10.0.0.0/8", "fd00::/8"]
    assert found.header == "X-Customer"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TENANTRY_TRUSTED_PEERS", "10.0.0.0/33"),
        ("TENANTRY_TRUSTED_PEERS", "gateway"),
        ("TENANTRY_TENANT_HEADER", "X Tenant"),
        ("TENANTRY_TENANT_HEADER", ""),
    ],
)
def test_a_bad_variable_is_named_with_its_value(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match=variable) as caught:
        of_share("gold=1", **{variable: value})
    assert value in str(caught.value)


def test_without_policy_and_share_everybody_is_default() -> None:
    found = load({"TENANTRY_TRUSTED_PEERS": "10.0.0.0/8"}, nothing)
    assert (found.known, found.trusted_peers, found.open_tenants) == (("default",), (), True)
    assert any("TENANTRY_TRUSTED_PEERS" in notice for notice in found.notices)


@pytest.mark.parametrize("allowed", ["", "other", "tenantry_x"])
def test_a_vllm_that_may_not_call_the_plugin_is_refused(allowed: str) -> None:
    with pytest.raises(ConfigError, match="VLLM_PLUGINS"):
        of_share("gold=1", VLLM_PLUGINS=allowed)
    assert of_share("gold=1", VLLM_PLUGINS="other,tenantry").weights["gold"] == 1.0


@pytest.mark.parametrize(
    ("environ", "port"),
    [({}, 8001), ({"TENANTRY_METRICS_PORT": "9000"}, 9000), ({"TENANTRY_METRICS_PORT": "0"}, 0)],
)
def test_the_metrics_port(environ: dict[str, str], port: int) -> None:
    assert metrics_port(environ) == port


@pytest.mark.parametrize("value", ["", "http", "-1", "65536", "80.5", "²"])
def test_a_bad_metrics_port_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="TENANTRY_METRICS_PORT"):
        metrics_port({"TENANTRY_METRICS_PORT": value})
