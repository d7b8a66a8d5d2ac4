"""What vLLM can do and our scheduler does not stand behind: each is refused by name at the start.

Everything else that changes what a scheduler does is run by tests under ours. An option is looked
for twice: in the command line before a model is loaded, so that vLLM ends with one sentence, and in
the configuration that vLLM has made of it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tenantry_api import names
from tenantry_engine.config import ConfigError


@dataclass(frozen=True, slots=True)
class Refusal:
    """One of them. `found` gives the value in vLLM's configuration, None where it is not used;
    `written` is how a command line or a configuration file says it, with the value as its group.
    """

    name: str
    found: Callable[[Any], str | None]
    reason: str
    way_out: str
    written: str | None = None

    def sentence(self, value: str) -> str:
        """What the user reads."""
        return (
            f"{self.name.format(value)} cannot be used with {names.SCHEDULER_CLASS}, "
            f"{self.reason}: {self.way_out}"
        )


def _policy(config: Any) -> str | None:
    policy = str(config.scheduler_config.policy)
    return None if policy == "fcfs" else policy


def _connector(config: Any) -> str | None:
    transfer = config.kv_transfer_config
    return None if transfer is None else str(transfer.kv_connector)


def _encoder_connector(config: Any) -> str | None:
    transfer = config.ec_transfer_config
    return None if transfer is None else str(transfer.ec_connector)


def _encoder_decoder(config: Any) -> str | None:
    return str(config.model_config.model) if config.model_config.is_encoder_decoder else None


def _diffusion(config: Any) -> str | None:
    return str(config.model_config.model) if config.model_config.is_diffusion else None


_WITHOUT: Final = f"drop it, or start without --scheduler-cls {names.SCHEDULER_CLASS}"
_OTHER_MODEL: Final = (
    f"serve another model, or this one without --scheduler-cls {names.SCHEDULER_CLASS}"
)
_VALUE: Final = r"""["']?[=:\s]+["']?"""

REFUSALS: Final[tuple[Refusal, ...]] = (
    Refusal(
        "--scheduling-policy={}",
        _policy,
        "which orders requests itself",
        "drop the option, and choose `ordering` in the policy",
        rf"scheduling[-_]policy{_VALUE}(?!fcfs\b)(\w+)",
    ),
    Refusal(
        "the KV connector {} (--kv-transfer-config or --kv-offloading-size)",
        _connector,
        "which does not know whose blocks a connector holds",
        _WITHOUT,
        r"kv[-_]transfer[-_]config\b(?s:.*?)kv[-_]connector" + _VALUE + r"(\w+)",
    ),
    Refusal(
        "the encoder-cache connector {} (--ec-transfer-config)",
        _encoder_connector,
        "which does not know when another engine has encoded an input",
        _WITHOUT,
        r"ec[-_]transfer[-_]config\b(?s:.*?)ec[-_]connector" + _VALUE + r"(\w+)",
    ),
    Refusal(
        "the encoder-decoder model {}",
        _encoder_decoder,
        "which has not been tested with cross-attention blocks",
        _OTHER_MODEL,
    ),
    Refusal(
        "the diffusion language model {}",
        _diffusion,
        "which has not been tested with tokens that are drawn several times",
        _OTHER_MODEL,
    ),
)


def check(vllm_config: Any) -> None:
    """Raises ConfigError, one sentence, where vLLM's configuration has something of the list."""
    for refusal in REFUSALS:
        if (value := refusal.found(vllm_config)) is not None:
            raise ConfigError(refusal.sentence(value))


def written(command: str) -> Iterator[str]:
    """A sentence for each that a command line, with the text of its files, asks for."""
    for refusal in REFUSALS:
        found = re.search(refusal.written, command) if refusal.written else None
        if found is not None:
            yield refusal.sentence(found.group(1))
