"""What users get: the contents of the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile

import pytest

from tests.processes import REPOSITORY

PACKAGE = "scrapy_redis_state"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in a wheel built from this tree, without any download."""
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
    result = subprocess.run(
        build, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("pattern", ["*.lua", "*.py", "py.typed"])
def test_the_wheel_has_every_file_of_the_package(wheel, pattern):
    """Scripts are package data: without one, a worker fails at its first call."""
    files = (REPOSITORY / PACKAGE).rglob(pattern)
    expected = {path.relative_to(REPOSITORY).as_posix() for path in files}
    assert expected
    assert expected <= wheel


def test_the_wheel_has_nothing_else(wheel):
    """Tests, example project and documentation stay out of users' environments."""
    metadata = {name for name in wheel if ".dist-info/" in name}
    assert any(name.endswith("/METADATA") for name in metadata)
    assert any(name.endswith("/LICENSE") for name in metadata)
    assert {name.split("/")[0] for name in wheel - metadata} == {PACKAGE}
