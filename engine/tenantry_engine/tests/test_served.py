"""The door, the tagging and both metrics ports, under the real `vllm serve` on the CPU."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.poll import until
from tenantry_api import names
from tenantry_engine.tests.policies import a_text
from tenantry_engine.tests.server import (
    GATEWAY,
    STRANGER,
    Server,
    tenantry_serve,
    vllm_serve,
)

pytestmark = pytest.mark.engine

IDENTITY = {"trustedPeers": [f"{GATEWAY}/32"]}
POLICY_INFO = "tenantry_policy_info"
LONG = [9, *range(300, 400)]


@dataclass
class Engines:
    """A server with a policy, one with weights and two front ends, one without a door."""

    policy: Path
    main: Server
    twins: Server
    doorless: Server

    def declare(self, **spec: Any) -> None:
        """Change the policy as an editor does, and wait until both processes have it."""
        fresh = self.policy.with_suffix(".new")
        fresh.write_text(a_text(**{"identity": IDENTITY, **spec}))
        before = self.hash()
        fresh.rename(self.policy)
        until("the new policy", lambda: self.hash() != before, 10)

    def hash(self) -> str:
        figures = self.main.figures(self.main.metrics_port)
        (found,) = [dict(labels)["hash"] for name, labels in figures if name == POLICY_INFO]
        return found


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    folders = [tmp_path_factory.mktemp(name) for name in ("main", "twins", "doorless")]
    policy = folders[0] / "policy.json"
    policy.write_text(a_text(identity=IDENTITY))
    ours = f"--scheduler-cls={names.SCHEDULER_CLASS}"
    share = {names.ENV_SHARE: "gold=3,free=1", names.ENV_TRUSTED_PEERS: f"{GATEWAY}/32"}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(server)
            for server in (
                Server(folders[0], tenantry_serve(policy), {}),
                Server(
                    folders[1],
                    vllm_serve(),
                    share,
                    ours,
                    f"--middleware={names.MIDDLEWARE}",
                    "--api-server-count=2",
                ),
                Server(folders[2], vllm_serve(), share, ours),
            )
        ]
        yield Engines(policy, *(server.ready() for server in servers))


@pytest.fixture
def main(engines: Engines) -> Server:
    return engines.main


@pytest.mark.parametrize(
    ("path", "body", "tokens"),
    [
        ("/v1/completions", {"prompt": [5, 6, 7]}, 4),
        ("/v1/completions", {"prompt": [5, 6, 7], "n": 2}, 8),
        ("/v1/completions", {"prompt": [[5, 6], [7, 8], [9, 9]]}, 12),
        ("/v1/completions", {"prompt": "aab aac", "stream": True}, 4),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "aab"}]}, 4),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": "aab"}], "stream": True, "n": 2},
            8,
        ),
        ("/v1/messages", {"messages": [{"role": "user", "content": "aab"}]}, 4),
    ],
    ids=["completion", "n=2", "list", "stream", "chat", "chat stream n=2", "messages"],
)
def test_the_header_decides_and_a_forged_argument_does_not(
    main: Server, path: str, body: dict[str, Any], tokens: int
) -> None:
    before = main.served("gold"), main.served("free")
    forged = {"vllm_xargs": {"tenantry": "free"}, "priority": -9, "cache_salt": "free"}
    if path == "/v1/messages":
        forged = {}
    asked = {"model": "tiny", "max_tokens": 4, "ignore_eos": True, **forged, **body}
    answer = main.post(path, asked, "gold")
    assert answer.status == 200, answer.body
    after = main.served("gold"), main.served("free")
    # The messages interface knows no ignore_eos, so it may end early.
    gained = after[0] - before[0]
    assert gained == tokens or (path == "/v1/messages" and 1 <= gained <= tokens)
    assert after[1] == before[1]


@pytest.mark.parametrize(
    ("tenant", "peer", "headers", "outcome"),
    [
        ("silver", GATEWAY, {}, "unknown"),
        ("gold", STRANGER, {}, "untrusted"),
        ("gold", STRANGER, {"X-Forwarded-For": GATEWAY}, "untrusted"),
        ("x" * 129, GATEWAY, {}, "malformed"),
        ("x" * 10_240, GATEWAY, {}, "malformed"),
        ("free, gold", GATEWAY, {}, "unknown"),
        (None, GATEWAY, {}, "absent"),
    ],
)
def test_everybody_else_is_default(
    main: Server, tenant: str | None, peer: str, headers: dict[str, str], outcome: str
) -> None:
    before = main.served("default"), main.door("tenantry_identity_total", outcome=outcome) or 0
    body = {"model": "tiny", "prompt": [5, 6], "max_tokens": 3, "ignore_eos": True}
    assert main.post("/v1/completions", body, tenant, peer, headers).status == 200
    assert main.served("default") - before[0] == 3
    assert main.door("tenantry_identity_total", outcome=outcome) == before[1] + 1


def test_a_gateway_that_forwards_an_address_is_still_the_gateway(main: Server) -> None:
    before = main.served("gold")
    body = {"model": "tiny", "prompt": [5, 6], "max_tokens": 3, "ignore_eos": True}
    forwarded = {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https"}
    assert main.post("/v1/completions", body, "gold", headers=forwarded).status == 200
    assert main.served("gold") - before == 3


def test_a_tenant_hits_its_own_prefixes_and_nobody_elses(main: Server) -> None:
    def hits(tenant: str) -> float:
        return main.engine("tenantry_prefix_hit_tokens_total", tenant=tenant) or 0.0

    before = hits("gold"), hits("free")
    main.complete("gold", prompt=LONG)
    main.complete("free", prompt=LONG)
    main.complete("free", prompt=LONG, cache_salt="tenant/gold")
    assert (hits("gold"), hits("free")) == before
    main.complete("gold", prompt=LONG)
    assert hits("gold") - before[0] == 96
    assert hits("free") == before[1]


def test_a_prompt_longer_than_the_engine_takes_is_refused_and_the_next_request_is_served(
    main: Server,
) -> None:
    answer = main.complete("gold", prompt=[5] * 3000)
    assert answer.status == 400
    assert b"2048" in answer.body
    assert b"3000" in answer.body
    assert main.complete("gold").status == 200


def test_two_requests_with_one_id_belong_to_two_tenants(main: Server) -> None:
    before = main.served("gold"), main.served("free")
    body = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 200, "ignore_eos": True}

    def ask(tenant: str) -> int:
        named = {"X-Request-Id": "the-same"}
        return main.post("/v1/completions", body, tenant, headers=named).status

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, ("gold", "free"))) == [200, 200]
    assert (main.served("gold") - before[0], main.served("free") - before[1]) == (200, 200)


def test_every_request_is_counted_once_by_how_it_ended(main: Server) -> None:
    def ends(outcome: str) -> float:
        return main.door("tenantry_requests_total", tenant="free", outcome=outcome) or 0.0

    before = {outcome: ends(outcome) for outcome in ("ok", "failed", "aborted", "refused")}
    main.complete("free")
    main.complete("free", max_tokens=-1)
    # So much that it is not over by the time that a busy machine lets this process hang up.
    main.hang_up("free", n=16, max_tokens=2000, ignore_eos=True)
    until("the abort to be counted", lambda: ends("aborted") > before["aborted"], 30)
    gained = {outcome: ends(outcome) - count for outcome, count in before.items()}
    assert gained == {"ok": 1, "failed": 1, "aborted": 1, "refused": 0}


def test_a_stream_is_measured_from_the_first_token_to_the_last(main: Server) -> None:
    def counts() -> dict[str, float]:
        return {
            part: main.door(f"tenantry_request_{part}_seconds_count", tenant="gold") or 0.0
            for part in ("ttft", "itl", "e2e", "queue")
        }

    before = counts()
    answer = main.complete("gold", prompt=[5, 6, 7], max_tokens=10, stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    gained = {part: count - before[part] for part, count in counts().items()}
    assert gained == {"ttft": 1, "itl": 9, "e2e": 1, "queue": 1}
    total = main.door("tenantry_request_ttft_seconds_sum", tenant="gold")
    assert total is not None
    assert total > 0


def test_both_ports_show_what_belongs_to_them(main: Server) -> None:
    door = {name for name, _ in main.figures(main.port)}
    engine = {name for name, _ in main.figures(main.metrics_port)}
    assert {"vllm:num_requests_running", "tenantry_requests_total"} <= door
    assert {"tenantry_refused_total", "tenantry_request_itl_seconds_bucket"} <= door
    assert {"tenantry_tokens_total", "tenantry_policy_info", "tenantry_step_seconds_sum"} <= engine
    assert door & engine == {"tenantry_build_info"}
    assert main.engine("tenantry_engine_active", reason="Enforce") == 1
    assert main.get("/health").status == main.get("/v1/models").status == 200


def test_a_changed_policy_reaches_engine_and_door_without_a_restart(engines: Engines) -> None:
    main = engines.main
    engines.declare(tenants={"gold": 7, "silver": 1})
    assert main.engine("tenantry_tenant_weight", tenant="gold") == 7
    assert main.engine("tenantry_tenant_weight", tenant="free") is None
    before = main.served("silver")
    until("the door to know silver", lambda: main.complete("silver") and main.served("silver"), 5)
    assert main.served("silver") > before
    engines.declare()


def test_a_bad_policy_changes_nothing(engines: Engines) -> None:
    good = engines.policy.read_text()
    engines.policy.write_text("{")
    until("the refusal in the log", lambda: "stays in force" in engines.main.log, 10)
    assert engines.main.engine("tenantry_tenant_weight", tenant="gold") == 3
    assert engines.main.complete("gold").status == 200
    engines.policy.write_text(good)


def test_refuse_answers_403_with_the_reason(engines: Engines) -> None:
    main = engines.main
    engines.declare(unknownTenant="Refuse")
    until("the door to refuse", lambda: main.complete("silver").status == 403, 5)
    error = main.complete("silver").json()["error"]
    assert (error["code"], error["reason"]) == (403, "UnknownTenant")
    assert (main.door("tenantry_refused_total", reason="UnknownTenant") or 0) >= 2
    assert main.complete("gold").status == main.complete(None).status == 200
    assert main.get("/health").status == 200
    engines.declare()


def test_two_front_ends_tag_alike_and_add_up(engines: Engines) -> None:
    twins = engines.twins
    for number in range(20):
        answer = twins.complete(f"walk-in-{number % 2}", vllm_xargs={"tenantry": "gold"})
        assert answer.status == 200
    for tenant in ("walk-in-0", "walk-in-1"):
        assert twins.served(tenant) == 40
        assert twins.door("tenantry_requests_total", tenant=tenant, outcome="ok") == 10
    assert twins.served("gold") == 0
    assert twins.engine("tenantry_tenant_weight", tenant="gold") == 3
    twins.complete("gold", peer=STRANGER)
    assert twins.served("default") == 4
    assert {name for name, _ in twins.figures(twins.port)} & {"tenantry_tokens_total"} == set()


def test_without_a_door_nobody_names_a_tenant(engines: Engines) -> None:
    doorless = engines.doorless
    for _ in range(3):
        assert doorless.complete("gold", vllm_xargs={"tenantry": "gold"}).status == 200
    assert doorless.served("gold") == 0
    assert doorless.served("default") == 12
    until("the warning", lambda: "is not believed" in doorless.log, 10)
    assert doorless.log.count("is not believed") == 1


def test_the_log_names_what_is_not_honoured_once(engines: Engines) -> None:
    log = engines.main.log
    assert log.count("only a cluster can honour these fields") == 1
    assert log.count("this version does not enforce") == 1
