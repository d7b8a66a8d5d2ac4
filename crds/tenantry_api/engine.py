"""The engine's side of a policy: the model, the deployment, the step and the cache."""

import json
import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from tenantry_api import names
from tenantry_api.choices import Eviction, Fairness, Isolation, Mode, Ordering
from tenantry_api.values import Count, Duration, ObjectName, Part, Percent, StepBudget

# Flags of `vllm serve` that the operator sets, or that would undo what it sets.
OWNED_ARGS = (
    "--scheduler-cls",
    "--scheduling-policy",
    "--middleware",
    "--model",
    "--served-model-name",
    "--host",
    "--port",
    "--uds",
    "--root-path",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--headless",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "-tp",
    "-pp",
    "-dp",
)
# argparse takes any unambiguous beginning of a long flag for the flag: `--por=9` is `--port=9`.
_SHORTEST = len("--por")
OWNED_MESSAGE = f"Tenantry sets these itself, leave them out: {', '.join(OWNED_ARGS)}"
_OWNED_CEL = (
    "[self.split('=', 2)[0].split(' ', 2)[0].replace('_', '-')].all(name, "
    f"{list(OWNED_ARGS)}.all(flag, flag != name && "
    f"(name.size() < {_SHORTEST} || !flag.startsWith(name))))"
)


def argument(value: str) -> str:
    """An argument as it is; ValueError names those that are not the user's."""
    name = value.split("=", 1)[0].split(" ", 1)[0].replace("_", "-")
    if any(name == flag or _abbreviates(name, flag) for flag in OWNED_ARGS):
        raise ValueError(OWNED_MESSAGE)
    return value


def _abbreviates(name: str, flag: str) -> bool:
    return len(name) >= _SHORTEST and flag.startswith(name)


Argument = Annotated[
    str,
    Field(min_length=1, max_length=4096),
    AfterValidator(argument),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 4096,
            "x-kubernetes-validations": [{"rule": _OWNED_CEL, "message": OWNED_MESSAGE}],
        }
    ),
]


MODEL_MESSAGE = "must be a model's name or path: without spaces, and not beginning with a dash"


def model_name(value: str) -> str:
    """A model's name as it is; ValueError for what `vllm serve` would take for an option."""
    if not re.fullmatch(r"[^-\x00-\x20\x7f][^\x00-\x20\x7f]*", value):
        raise ValueError(MODEL_MESSAGE)
    return value


ModelName = Annotated[
    str,
    Field(min_length=1, max_length=512),
    AfterValidator(model_name),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 512,
            "x-kubernetes-validations": [
                {
                    "rule": "self.matches('^[^-[:cntrl:][:space:]][^[:cntrl:][:space:]]*$')",
                    "message": MODEL_MESSAGE,
                }
            ],
        }
    ),
]
TEMPLATE_DEPTH = 50


def template(value: dict[str, Any]) -> dict[str, Any]:
    """A pod template as it is; ValueError when JSON has no word for something in it.

    A pod template is some ten levels deep. Deeper ones than TEMPLATE_DEPTH are mistakes, and some
    way beyond it they can be read but not written.
    """
    try:
        json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("must hold texts, finite numbers, true, false, lists, mappings") from error
    if not _within(value, TEMPLATE_DEPTH):
        raise ValueError(f"must not be nested deeper than {TEMPLATE_DEPTH} levels")
    return value


def _within(value: object, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_within(item, depth - 1) for item in inner)


Template = Annotated[dict[str, Any], AfterValidator(template)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]


class Hub(Part):
    """The model comes from the Hugging Face hub."""

    token_secret: ObjectName | None = Field(
        None,
        description="Secret in the namespace of the policy whose key `token` is the hub token. "
        "Left out: no token.",
    )


class Claim(Part):
    """The model lies on a volume."""

    name: ObjectName = Field(description="PersistentVolumeClaim in the namespace of the policy.")
    path: Path = Field(".", description="Folder of the model inside the volume.")


class Image(Part):
    """The model comes as an OCI image, mounted as a volume."""

    reference: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="Image reference, best by digest."
    )
    path: Path = Field(".", description="Folder of the model inside the image.")


class Source(Part):
    """Where the model comes from."""

    hub: Hub | None = Field(None, description="The Hugging Face hub, by `model.name`.")
    claim: Claim | None = Field(
        None, description=f"A volume, mounted read-only at {names.MODEL_MOUNT}."
    )
    image: Image | None = Field(
        None, description=f"An OCI image with the weights, mounted at {names.MODEL_MOUNT}."
    )
    path: Path | None = Field(
        None, description="An absolute path that the engine's own image or template brings."
    )


class Model(Part):
    """What is served."""

    name: ModelName = Field(
        description="The model that vLLM loads, for example meta-llama/Llama-3.1-8B-Instruct."
    )
    served_name: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        None,
        description="The name that clients put into `model`. Left out: the name of the policy.",
    )
    source: Source | None = Field(
        None,
        description="Where the weights come from: exactly one of hub, claim, image, path. Left "
        "out: the hub, without a token.",
    )

    @property
    def location(self) -> str:
        """What vLLM is told to load: the hub's name, or a path in the container."""
        source = self.source or Source()
        if source.path is not None:
            return source.path
        mounted = source.claim or source.image
        if mounted is None:
            return self.name
        folder = mounted.path.strip("/").removeprefix("./")
        return names.MODEL_MOUNT if folder in ("", ".") else f"{names.MODEL_MOUNT}/{folder}"


class Autoscaling(Part):
    """An autoscaler owns the number of replicas."""

    min: Count = Field(1, description="Fewest replicas.")
    max: Count = Field(description="Most replicas.")


class Engine(Part):
    """The Deployment of the engines."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = Field(
        None, description="Engine image. Left out: the one of the operator's settings."
    )
    replicas: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = Field(
        None, description="Engines of this policy. Left out: 1, or what the autoscaler says."
    )
    autoscaling: Autoscaling | None = Field(
        None, description="Leave the number of replicas to an autoscaler. Excludes `replicas`."
    )
    args: tuple[Argument, ...] = Field(
        (),
        max_length=64,
        description="Further arguments of `vllm serve`, one per item. Those that Tenantry sets "
        "itself are refused by name.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    template: Template | None = Field(
        None,
        description="Partial pod template, merged over the rendered one (strategic merge; lists "
        "of containers, volumes and environment by name). The engine container is `engine`.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


class Scheduling(Part):
    """Who gets the next piece of GPU time."""

    mode: Mode = Field(
        Mode.ENFORCE,
        description="Enforce: tenants get their shares. Observe: vLLM's own order; identity and "
        "metrics only. Off: stock vLLM, nothing of Tenantry in the engine; write it in quotes, "
        "since YAML reads a bare Off as false.",
    )
    fairness: Fairness = Field(
        Fairness.GPU_TIME,
        description="What is divided between tenants. GPUTime: GPU seconds. Tokens: twice the "
        "output tokens plus the input tokens. None: one order over all tenants.",
    )
    ordering: Ordering = Field(
        Ordering.COST,
        description="Whose turn it is inside a tenant (over all with fairness None). Deadline: "
        "the order of arrival, as no request can say its deadline yet.",
    )
    step_budget: StepBudget = Field(
        None,
        description="How long one engine step may take: `auto`, or a duration. Shorter steps: "
        "smoother streams, less throughput.",
    )
    token_delay: Duration = Field(
        timedelta(seconds=1),
        description="How much later a token may come than it would to the tenant alone on its "
        "share.",
    )

    @property
    def step_budget_seconds(self) -> float | None:
        """Seconds; None means `auto`."""
        return None if self.step_budget is None else self.step_budget.total_seconds()

    @property
    def token_delay_seconds(self) -> float:
        """Seconds."""
        return self.token_delay.total_seconds()


class KVCache(Part):
    """The KV cache of each engine."""

    eviction: Eviction = Field(
        Eviction.LRU,
        description="Which cached block of a tenant goes first; the tenant furthest over its "
        "quota always gives first.",
    )
    isolation: Isolation = Field(
        Isolation.TENANT,
        description="Who may hit whose prefix cache. Tenant: nobody else. Group: tenants of the "
        "same `kvCache.group`. Shared: everybody; timing then tells what others asked.",
    )
    low_watermark_percent: Percent = Field(
        5, description="Free blocks, in percent, below which proactive reclaim starts."
    )
    high_watermark_percent: Percent = Field(
        10, description="Free blocks, in percent, at which proactive reclaim stops."
    )
