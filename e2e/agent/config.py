"""What the sandbox tells the agent, and what the agent's parts share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e import paths


@dataclass(frozen=True)
class AgentConfig:
    """The file named by `--config`.

    server, ca, token: the API server and the administrator's way in. kubelet_cert, kubelet_key,
    client_ca: the agent's own door for logs and exec. images: image maps, later ones win.
    models: folder of the models that image maps name. masks: what no pod may see.
    volume_refresh: seconds between refreshes of volumes without a pod update.
    backoff_initial, backoff_max: seconds before a container is started again.
    """

    server: str
    ca: Path
    token: str
    kubelet_cert: Path
    kubelet_key: Path
    client_ca: Path
    nodes_file: Path
    images: tuple[Path, ...]
    run_dir: Path
    gateway: str
    pod_cidr: str
    service_cidr: str
    kubelet_port: int
    rootless: bool
    checkout: Path
    bin_dir: Path
    venv: Path
    models: Path
    masks: tuple[Path, ...] = field(default=())
    volume_refresh: float = 60.0
    backoff_initial: float = 1.0
    backoff_max: float = 30.0

    @property
    def places(self) -> dict[str, str]:
        """What the placeholders of an image map stand for."""
        return {
            "venv": str(self.venv),
            "bin": str(self.bin_dir),
            "checkout": str(self.checkout),
            "models": str(self.models),
        }

    @property
    def pods_dir(self) -> Path:
        """One folder per pod, wiped at start."""
        return self.run_dir / "pods"


_PATHS = frozenset(
    {"ca", "kubelet_cert", "kubelet_key", "client_ca", "nodes_file", "run_dir", "checkout"}
    | {"bin_dir", "venv", "models"}
)
_LISTS = frozenset({"images", "masks"})


def read(path: Path) -> AgentConfig:
    """The agent's configuration; KeyError or TypeError names what is missing or unknown."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name in _PATHS:
            values[name] = Path(value)
        elif name in _LISTS:
            values[name] = tuple(Path(item) for item in value)
        else:
            values[name] = value
    values.setdefault("models", paths.cache() / "models")
    return AgentConfig(**values)
