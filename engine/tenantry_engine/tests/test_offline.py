"""The scheduler without a worker: it is vLLM's, and takes a request from its arrival to its end."""

import importlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def offline() -> Any:
    """Imported by tests that run: it imports vLLM, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CONFIGURE_LOGGING", "0")
        return importlib.import_module("tenantry_engine.offline")


def served(offline: Any, scheduler: Any, tokens: int) -> list[int]:
    """Serve what is there; the answer ends after so many tokens. Returns tokens by step."""
    steps: list[int] = []
    made = 0
    while scheduler.has_unfinished_requests():
        output = scheduler.schedule()
        names = list(output.num_scheduled_tokens)
        steps.append(output.total_num_scheduled_tokens)
        answers: list[list[int]] = []
        for name in names:
            if scheduler.requests[name].is_prefill_chunk:
                answers.append([])
                continue
            made += 1
            answers.append([offline.STOP if made == tokens else offline.WORD])
        scheduler.update_from_output(output, offline.answer(names, answers))
    return steps


def test_a_request_ends_with_the_stop_token_long_before_its_limit(offline: Any) -> None:
    scheduler = offline.stock(offline.Size(tokens=64, seats=8, blocks=100))
    request = offline.request("x", offline.Prompt(100), 4096, tenant="a")
    scheduler.add_request(request)
    assert served(offline, scheduler, 5) == [64, 36, 1, 1, 1, 1]
    assert request.num_output_tokens == 5
    assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 99


def test_a_request_ends_at_its_limit(offline: Any) -> None:
    scheduler = offline.stock(offline.Size(tokens=64, seats=8, blocks=100))
    request = offline.request("x", offline.Prompt(10), 3, tenant="a")
    scheduler.add_request(request)
    served(offline, scheduler, 99)
    assert request.num_output_tokens == 3


def test_the_scheduler_is_vllms_own_sync_or_async(offline: Any) -> None:
    size = offline.Size(blocks=100)
    assert type(offline.stock(size)).__name__ == "Scheduler"
    assert type(offline.stock(size, use_async=True)).__name__ == "AsyncScheduler"


def test_a_request_may_be_as_long_as_a_large_model_takes(offline: Any) -> None:
    assert offline.vllm_config(offline.Size()).model_config.max_model_len == 131_072


def test_the_model_folder_holds_a_configuration_and_nothing_else(
    offline: Any, tmp_path: Path
) -> None:
    folder = offline.model(4096, tmp_path)
    assert [each.name for each in folder.iterdir()] == ["config.json"]


def names(offline: Any, name: str, **prompt: Any) -> list[bytes]:
    """What the prefix cache would call the blocks of a request."""
    request = offline.request(name, offline.Prompt(**prompt), 10, tenant="a")
    return list(request.block_hashes)


def test_blocks_are_named_after_what_stands_before_them(offline: Any) -> None:
    one = names(offline, "one", tokens=1050, shared=(1, 2))
    two = names(offline, "two", tokens=1050, shared=(1, 3))
    assert len(one) == 65
    assert one[:32] == two[:32]
    assert not set(one[32:]) & set(two[32:])
    assert len({*one}) == 65


def test_tenants_and_requests_share_no_block_by_accident(offline: Any) -> None:
    mine = names(offline, "one", tokens=600, shared=(1,), salt="a")
    theirs = names(offline, "one", tokens=600, shared=(1,), salt="b")
    other = names(offline, "two", tokens=600)
    assert not {*mine} & {*theirs}
    assert not {*mine} & {*other}


def test_a_block_that_is_only_partly_shared_is_the_requests_own(offline: Any) -> None:
    short = names(offline, "one", tokens=520, shared=(1, 2))
    long = names(offline, "two", tokens=1050, shared=(1, 2))
    assert len(short) == 32
    assert short == long[:32]
