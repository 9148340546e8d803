"""The device of benchmarks/gpu.py: its name, memory and rate, and what is installed there."""

import importlib.metadata
import time
import tomllib
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement

from benchmarks.harness.gpu import GpuSettings, published_tflops
from benchmarks.harness.processes import ROOT
from benchmarks.harness.settings import synchronize
from common.provenance import versions

# Of the matrix product whose rate stands for an unknown GPU's peak; large enough to fill any.
RATE_SIZE, RATE_SIZE_ON_CPU, RATE_REPEATS = 8192, 256, 10


def matrix_tflops(device: str) -> float:
    """Return the rate of a bfloat16 product of square matrices of random data, the best of ten."""
    size = RATE_SIZE_ON_CPU if device == "cpu" else RATE_SIZE
    left, right = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    seconds = []
    for _ in range(RATE_REPEATS + 2):
        synchronize(device)
        start = time.perf_counter()
        left @ right
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds[2:]) / 1e12


def device_facts(device: str) -> dict[str, Any]:
    """Return name and memory of the device, and the peak that utilisation is a share of."""
    facts: dict[str, Any] = {"device": device, "name": "CPU", "device_bytes": None}
    if device != "cpu":
        properties: Any = torch.cuda.get_device_properties(0)
        facts |= {
            "name": properties.name,
            "device_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
        }
    published, measured = published_tflops(facts["name"]), matrix_tflops(device)
    return {
        **facts,
        "measured_tflops": measured,
        "published_tflops": published,
        "peak_tflops": published or measured,
        "peak_is": "published" if published else "measured",
    }


def install(folder: Path, settings: GpuSettings) -> dict[str, Any]:
    """Return device, driver and versions, and which of the project's requirements are not met."""
    facts = device_facts(settings.device)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    unmet = [text for text in project["dependencies"] if not _is_met(Requirement(text))]
    return {
        **facts,
        "cuda": torch.version.cuda,
        "driver": _driver() if settings.device != "cpu" else None,
        "versions": versions(),
        "unmet": unmet,
    }


def _is_met(requirement: Requirement) -> bool:
    try:
        # A local label, as in 2.13.0+cpu, does not count.
        found = importlib.metadata.version(requirement.name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(found, prereleases=True)


def _driver() -> str | None:
    version = Path("/sys/module/nvidia/version")
    return version.read_text(encoding="utf-8").strip() if version.is_file() else None
