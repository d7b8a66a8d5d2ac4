"""What our scheduler does not stand behind is refused at the start, by name."""

import urllib.request
from typing import Any

import pytest

from tenantry_api import names
from tenantry_engine import refusals, startup
from tenantry_engine.config import ConfigError

OURS = f"vllm serve a/model --scheduler-cls {names.SCHEDULER_CLASS}"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--scheduling-policy priority", "--scheduling-policy=priority cannot be used with"),
        ("--scheduling_policy=priority", "--scheduling-policy=priority cannot be used with"),
        ("scheduling-policy: priority\n", "--scheduling-policy=priority cannot be used with"),
        (
            '--kv-transfer-config {"kv_role":"kv_both","kv_connector":"LMCacheConnectorV1"}',
            "the KV connector LMCacheConnectorV1 (--kv-transfer-config or --kv-offloading-size)",
        ),
        (
            "--kv-transfer-config.kv_connector NixlConnector",
            "the KV connector NixlConnector (--kv-transfer-config or --kv-offloading-size)",
        ),
        (
            '--ec-transfer-config={"ec_connector": "ECExampleConnector"}',
            "the encoder-cache connector ECExampleConnector (--ec-transfer-config)",
        ),
    ],
)
def test_an_option_on_the_command_line_ends_vllm_with_one_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        startup.check({"TENANTRY_METRICS_PORT": "0"}, f"{OURS} {words}", stops=True)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"tenantry: {sentence}")
    assert "drop " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        OURS,
        f"{OURS} --scheduling-policy fcfs",
        f"{OURS} --scheduling-policy=fcfs --enable-lora",
        "vllm serve a/model --scheduling-policy priority",
    ],
    ids=["no option", "the default", "the default, and another", "not our scheduler"],
)
def test_other_options_are_none_of_our_business(command: str) -> None:
    startup.check({"TENANTRY_METRICS_PORT": "0"}, command, stops=True)


def test_every_refusal_names_the_value_the_class_and_the_way_out() -> None:
    for refusal in refusals.REFUSALS:
        sentence = refusal.sentence("VALUE")
        assert "VALUE" in sentence
        assert names.SCHEDULER_CLASS in sentence
        assert any(word in sentence for word in ("drop", "serve another model"))


def priority(config: Any) -> None:
    config.scheduler_config.policy = "priority"


def kv_connector(config: Any) -> None:
    from vllm.config import KVTransferConfig  # noqa: PLC0415 - takes seconds

    config.kv_transfer_config = KVTransferConfig(
        kv_connector="OffloadingConnector", kv_role="kv_both"
    )


def encoder_connector(config: Any) -> None:
    from vllm.config import ECTransferConfig  # noqa: PLC0415 - takes seconds

    config.ec_transfer_config = ECTransferConfig(
        ec_connector="ECExampleConnector", ec_role="ec_both"
    )


def encoder_decoder(config: Any) -> None:
    vars(config.model_config)["is_encoder_decoder"] = True  # which vLLM works out once


def diffusion(config: Any) -> None:
    vars(config.model_config)["is_diffusion"] = True


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (priority, "--scheduling-policy=priority cannot be used"),
        (kv_connector, "the KV connector OffloadingConnector .* cannot be used"),
        (encoder_connector, "the encoder-cache connector ECExampleConnector .* cannot be used"),
        (encoder_decoder, "the encoder-decoder model .*model-2048 cannot be used"),
        (diffusion, "the diffusion language model .*model-2048 cannot be used"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_vllm_made_of_an_option_is_refused_where_the_scheduler_is_made(
    harness: Any, monkeypatch: pytest.MonkeyPatch, change: Any, sentence: str
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    monkeypatch.setenv("TENANTRY_METRICS_PORT", "0")
    arguments = harness.arguments(harness.Size())
    change(arguments["vllm_config"])
    with pytest.raises(ConfigError, match=sentence):
        scheduler.TenantryScheduler(**arguments)


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore")
def test_each_rank_of_a_pod_has_a_port_of_its_own(
    harness: Any, monkeypatch: pytest.MonkeyPatch, two_free_ports: int
) -> None:
    from tenantry_engine import scheduler  # noqa: PLC0415 - imports vLLM

    monkeypatch.setenv("TENANTRY_METRICS_PORT", str(two_free_ports))
    made = []
    for rank in range(2):
        arguments = harness.arguments(harness.Size())
        arguments["vllm_config"].parallel_config.data_parallel_rank_local = rank
        made.append(scheduler.TenantryScheduler(**arguments))
    for rank, each in enumerate(made):
        url = f"http://127.0.0.1:{two_free_ports + rank}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            assert b"tenantry_engine_active" in answer.read()
        each.conductor.book.metrics.close()
