"""Where figures are written, and read by the plots and by the documentation.

``results/NAME.json`` is of a full run and is committed; ``results/quick/NAME.json`` is
of a quick one and is not.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.report import versions

RESULTS = Path(__file__).parent / "results"
DIGITS = 6


def add_options(parser: ArgumentParser) -> None:
    """What every benchmark can be told."""
    parser.add_argument(
        "--quick", action="store_true", help="smaller and fewer: to see that it works"
    )
    parser.add_argument(
        "--json", type=Path, help="the file for the figures, in place of its usual one"
    )


def write(name: str, figures: dict[str, Any], options: Namespace) -> Path:
    """Write what was measured, and with what; where."""
    path: Path = options.json or _usual(name, quick=options.quick)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"quick": options.quick, "machine": machine(), "versions": versions()}
    path.write_text(json.dumps(_rounded(whole | figures), indent=1) + "\n")
    return path


def read(name: str, directory: Path = RESULTS) -> dict[str, Any]:
    """What :func:`write` wrote.

    :raises FileNotFoundError: if that was not measured
    """
    figures: dict[str, Any] = json.loads((directory / f"{name}.json").read_text())
    return figures


def _usual(name: str, *, quick: bool) -> Path:
    directory = RESULTS / "quick" if quick else RESULTS
    return directory / f"{name}.json"


def _rounded(value: Any) -> Any:
    """Numbers with as many digits as mean something, so that files stay small."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value
