import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry_api.choices import Isolation, Mode, UnknownTenant
from tenantry_engine.door import INFERENCE
from tenantry_engine.tagging import CALLER, Caller
from tenantry_engine.tests import asgi
from tenantry_engine.tests.asgi import SSE, TOKEN, Bench, answering, request
from tenantry_engine.tests.policies import a_config

DONE = b"data: [DONE]\n\n"


async def test_the_tenant_of_a_trusted_peer_goes_along_with_its_request() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config())
    await bench.call(request(tenant="gold"))
    assert seen[0][0] == Caller("gold", "tenant/gold")
    assert CALLER.get() is None
    assert bench.ends("gold") == {"ok": 1}
    assert bench.figure("tenantry_identity_total", outcome="ok") == 1


@pytest.mark.parametrize(
    ("scope", "outcome"),
    [
        (request(tenant="gold", peer="8.8.8.8"), "untrusted"),
        (request(tenant="silver"), "unknown"),
        (request(tenant=""), "malformed"),
        (request(tenant=None), "absent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_everybody_else_is_default_and_counted(scope: dict[str, Any], outcome: str) -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config())
    await bench.call(scope)
    assert seen[0][0].tenant == "default"
    assert bench.ends("default") == {"ok": 1}
    assert bench.figure("tenantry_identity_total", outcome=outcome) == 1


def claiming(*values: bytes, name: bytes = b"x-tenant-id") -> dict[str, Any]:
    """A request with these headers, as they came over the wire."""
    return {**request(tenant=None), "headers": [(name, value) for value in values]}


@pytest.mark.parametrize(
    ("scope", "outcome"),
    [
        (claiming(b"gold", b"free"), "malformed"),
        (claiming(b"free", b"gold"), "malformed"),
        (claiming(b"free, gold"), "unknown"),
        (claiming(b"gold\x00"), "malformed"),
        (claiming(b"g" * 10_240), "malformed"),
        (claiming(b"gold", name=b"x_tenant_id"), "absent"),
        ({**claiming(b"gold"), "client": ("8.8.8.8", 1)}, "untrusted"),
        ({**claiming(b"free", b"gold"), "client": ("8.8.8.8", 1)}, "untrusted"),
    ],
    ids=["two", "two turned round", "joined", "null", "10 kB", "underscores", "peer", "peer, two"],
)
@pytest.mark.parametrize("open_tenants", [False, True], ids=["listed", "open"])
async def test_a_forged_name_never_gets_the_better_of_two_tenants_and_is_counted(
    scope: dict[str, Any], outcome: str, open_tenants: bool
) -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config("gold", "free", open_tenants=open_tenants))
    await bench.call(scope)
    assert seen[0][0].tenant == "default"
    assert bench.ends("gold") == bench.ends("free") == {}
    counted = "malformed" if outcome == "unknown" and open_tenants else outcome
    assert bench.figure("tenantry_identity_total", outcome=counted) == 1


@pytest.mark.parametrize(
    ("tenant", "reason"), [("silver", "UnknownTenant"), ("", "MalformedTenant")]
)
async def test_a_policy_can_refuse_names_that_it_does_not_list(tenant: str, reason: str) -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config(unknown_tenant=UnknownTenant.REFUSE))
    answer = await bench.call(request(tenant=tenant))
    assert seen == []
    assert answer[0]["status"] == 403
    error = json.loads(asgi.text_of(answer))["error"]
    assert (error["code"], error["reason"], error["param"]) == (403, reason, "X-Tenant-ID")
    assert error["message"]
    assert bench.ends("other") == {"refused": 1}
    assert bench.figure("tenantry_refused_total", tenant="other", reason=reason) == 1


async def test_what_is_no_work_for_the_engine_passes_uncounted() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config(unknown_tenant=UnknownTenant.REFUSE))
    for path in ("/health", "/metrics", "/ping", "/v1/models", "/tokenize"):
        await bench.call(request(path, tenant="silver", method="GET"))
        await bench.call(request(path, tenant="silver"))
    await bench.call(request("/v1/completions", tenant="silver", method="OPTIONS"))
    assert len(seen) == 11
    assert bench.figure("tenantry_identity_total", outcome="unknown") == 0
    assert bench.ends("other") == bench.ends("default") == {}


@pytest.mark.parametrize("path", sorted(INFERENCE))
async def test_every_way_to_the_engine_is_counted(path: str) -> None:
    bench = Bench(asgi.noting([]), a_config())
    await bench.call(request(path))
    await bench.call({**request(f"/llm{path}"), "root_path": "/llm"})
    assert bench.ends("gold") == {"ok": 2}


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
async def test_other_kinds_of_connection_pass(kind: str) -> None:
    seen: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append((scope["type"], CALLER.get()))

    bench = Bench(app, a_config())
    scope = {key: value for key, value in request().items() if key != "method"}
    await bench.call({**scope, "type": kind})
    expected = None if kind == "lifespan" else Caller("gold", "tenant/gold")
    assert seen == [(kind, expected)]
    assert bench.ends("gold") == {}


async def test_the_clients_priority_stays_outside() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config())
    await bench.call(request(x_vllm_priority="-100", x_session_id="s"))
    assert b"x-vllm-priority" not in seen[0][1]
    assert seen[0][1][b"x-session-id"] == b"s"


async def test_a_stream_is_passed_on_piece_by_piece_and_measured() -> None:
    delays = [0.5, 0.02, 0.03, 0.0, 0.0]

    def wait(index: int) -> None:
        bench.clock.now += delays[index]

    app = answering(TOKEN, TOKEN, TOKEN, b'data: {"choices":[],"usage":{}}\n\n', DONE,
                    headers=SSE, before=wait)  # fmt: skip
    bench = Bench(app, a_config())
    answer = await bench.call(request())
    assert [message.get("body") for message in answer[1:4]] == [TOKEN] * 3
    figures = {
        f"{name} {part}": bench.figure(f"tenantry_request_{name}_seconds_{part}", tenant="gold")
        for name in ("ttft", "itl", "e2e")
        for part in ("count", "sum")
    }
    assert figures == {
        "ttft count": 1,
        "ttft sum": pytest.approx(0.5),
        "itl count": 2,
        "itl sum": pytest.approx(0.05),
        "e2e count": 1,
        "e2e sum": pytest.approx(0.55),
    }


async def test_an_answer_in_one_piece_has_no_first_token() -> None:
    bench = Bench(answering(b'{"choices":[{"text":"aab"}]}'), a_config())
    await bench.call(request())
    assert bench.figure("tenantry_request_ttft_seconds_count", tenant="gold") == 0
    assert bench.figure("tenantry_request_e2e_seconds_count", tenant="gold") == 1


async def test_the_time_in_vllms_queue_is_counted_for_each_part() -> None:
    class Times:
        def __init__(self, queued: float, scheduled: float) -> None:
            self.queued_ts, self.scheduled_ts = queued, scheduled

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        caller = CALLER.get()
        assert caller is not None
        caller.waits.extend([Times(10.0, 10.25), Times(10.0, 11.0), Times(10.0, 0.0)])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    bench = Bench(app, a_config())
    await bench.call(request())
    assert bench.figure("tenantry_request_queue_seconds_count", tenant="gold") == 2
    assert bench.figure("tenantry_request_queue_seconds_sum", tenant="gold") == 1.25


async def test_a_client_that_hangs_up_has_aborted() -> None:
    bench = Bench(asgi.until_disconnect([TOKEN] * 50), a_config())
    answer = await bench.call(request(), gone_after=4)
    assert len(answer) < 20
    assert bench.ends("gold") == {"aborted": 1}
    assert bench.figure("tenantry_request_e2e_seconds_count", tenant="gold") == 0


async def test_a_client_that_goes_after_the_answer_has_not_aborted() -> None:
    bench = Bench(answering(b"{}"), a_config())
    await bench.call(request(), gone_after=2)
    assert bench.ends("gold") == {"ok": 1}


@pytest.mark.parametrize(
    "app",
    [
        answering(b'{"error":{}}', status=400),
        answering(b'{"error":{}}', status=503),
        answering(TOKEN, b'data: {"error":{"message":"gone"}}\n\n', DONE, headers=SSE),
    ],
    ids=["bad request", "overloaded", "error in the stream"],
)
async def test_what_ends_badly_has_failed(app: Any) -> None:
    bench = Bench(app, a_config())
    await bench.call(request())
    assert bench.ends("gold") == {"failed": 1}


async def test_an_application_that_raises_has_failed_and_the_error_goes_on() -> None:
    bench = Bench(asgi.raising(KeyError("x")), a_config())
    with pytest.raises(KeyError):
        await bench.call(request())
    assert bench.ends("gold") == {"failed": 1}
    assert CALLER.get() is None


async def test_a_cancelled_request_has_aborted() -> None:
    bench = Bench(asgi.raising(asyncio.CancelledError()), a_config())
    with pytest.raises(asyncio.CancelledError):
        await bench.call(request())
    assert bench.ends("gold") == {"aborted": 1}


async def test_requests_at_the_same_time_keep_their_tenants_apart() -> None:
    seen: list[tuple[str, str]] = []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        caller = CALLER.get()
        assert caller is not None
        seen.append((dict(scope["headers"])[b"x-tenant-id"].decode(), caller.tenant))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    bench = Bench(app, a_config())
    await asyncio.gather(*(bench.call(request(tenant=t)) for t in ["gold", "free"] * 10))
    assert len(seen) == 20
    assert all(named == carried for named, carried in seen)


STORIES = {
    "ok": answering(b"{}"),
    "bad": answering(b"{}", status=404),
    "dies": asgi.raising(RuntimeError("x")),
    "long": asgi.until_disconnect([TOKEN] * 9),
}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(STORIES)),
            st.sampled_from(["gold", "free", "silver", "", None]),
            st.sampled_from([None, 2, 3]),
        ),
        max_size=12,
    )
)
def test_the_outcomes_of_all_tenants_add_up_to_the_arrivals(
    stories: list[tuple[str, str | None, int | None]],
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await STORIES[dict(scope["headers"])[b"story"].decode()](scope, receive, send)

    async def everything() -> None:
        for story, tenant, gone in stories:
            with contextlib.suppress(RuntimeError):
                await bench.call(request(tenant=tenant, story=story), gone_after=gone)

    bench = Bench(app, a_config(unknown_tenant=UnknownTenant.REFUSE))
    asyncio.run(everything())
    tenants = ("gold", "free", "default", "other")
    assert sum(sum(bench.ends(tenant).values()) for tenant in tenants) == len(stories)
    outcomes = ("ok", "unknown", "untrusted", "malformed", "absent")
    identified = [bench.figure("tenantry_identity_total", outcome=o) or 0 for o in outcomes]
    assert sum(identified) == len(stories)


async def test_a_changed_policy_reaches_the_next_request() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config("gold", "free"), fresh=a_config("gold", "silver"))
    await bench.call(request(tenant="silver"))
    assert seen[-1][0].tenant == "silver"
    assert bench.ends("silver") == {"ok": 1}
    assert bench.figure("tenantry_requests_total", tenant="free", outcome="ok") is None
    assert bench.figure("tenantry_request_ttft_seconds_count", tenant="free") is None


async def test_observe_leaves_priority_and_cache_as_the_client_asks() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config(mode=Mode.OBSERVE))
    await bench.call(request(x_vllm_priority="3"))
    assert seen[0][0] == Caller("gold", None, enforce=False)
    assert seen[0][1][b"x-vllm-priority"] == b"3"


async def test_with_mode_off_nothing_is_identified_or_counted() -> None:
    seen: list[Any] = []
    bench = Bench(asgi.noting(seen), a_config(mode=Mode.OFF))
    await bench.call(request())
    assert seen[0][0] is None
    assert bench.ends("gold") == {}


async def test_groups_share_their_part_of_the_cache() -> None:
    seen: list[Any] = []
    config = a_config(isolation=Isolation.GROUP, groups={"gold": "team", "free": "team"})
    bench = Bench(asgi.noting(seen), config)
    for tenant in ("gold", "free", None):
        await bench.call(request(tenant=tenant))
    assert [caller.namespace for caller, _ in seen] == [
        "group/team",
        "group/team",
        "tenant/default",
    ]


async def test_series_of_configured_tenants_exist_from_the_start() -> None:
    bench = Bench(answering(b""), a_config("gold"))
    for tenant in ("gold", "default"):
        for outcome in ("ok", "aborted", "failed", "refused"):
            assert bench.figure("tenantry_requests_total", tenant=tenant, outcome=outcome) == 0
        assert bench.figure("tenantry_request_itl_seconds_count", tenant=tenant) == 0


async def test_past_a_thousand_tenants_the_rest_are_other() -> None:
    bench = Bench(answering(b""), a_config(open_tenants=True))
    for number in range(1200):
        await bench.call(request(tenant=f"t{number}"))
    assert bench.ends("t0") == {"ok": 1}
    assert bench.ends("other") == {"ok": 1200 - 1000 + 3}
