"""The machine that was measured on: what its figures depend on, and nothing private."""

from __future__ import annotations

import os
import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def machine() -> dict[str, object]:
    """Processor, number of cores, and system."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": _system(),
        "Python": platform.python_version(),
    }


def _processor() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = platform.system()
    # The first two numbers: what follows names a build.
    kernel = ".".join(platform.release().split(".")[:2])
    return f"{name}, kernel {kernel}, {platform.machine()}"
