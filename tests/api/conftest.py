"""The two front doors in this process: `main` with its output caught, and a real HTTP server."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import httpx
import pytest
import uvicorn

from api.app import create_app
from api.cli import main
from tests.api.homes import finish, settings_of, write_spec


@dataclass(frozen=True)
class Said:
    """What a verb ended with."""

    code: int
    out: str
    err: str


Gridlaw = Callable[..., Said]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no colours from whoever runs the tests."""
    for variable in ("GRIDLAW_HOME", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def gridlaw(capsys: pytest.CaptureFixture[str]) -> Gridlaw:
    """Run a verb; arguments may be paths."""

    def call(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    """A valid sweep file."""
    return write_spec(tmp_path)


@dataclass(frozen=True)
class Finished:
    """A home in which one sweep is over; not to be written to."""

    home: Path
    sweep_id: str
    spec_file: Path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The finished home."""
    folder = tmp_path_factory.mktemp("finished")
    spec_file = write_spec(folder)
    return Finished(folder / "home", finish(folder / "home", spec_file), spec_file)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], httpx.Client]]:
    """Serve a home on a free port and give a client of it."""
    servers: list[tuple[uvicorn.Server, Thread, socket.socket, httpx.Client]] = []

    def start(home: Path) -> httpx.Client:
        listener = socket.create_server(("127.0.0.1", 0))
        app = create_app(settings_of(home))
        config = uvicorn.Config(app, log_level="critical", ws="none", lifespan="on")
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        port = listener.getsockname()[1]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        servers.append((server, thread, listener, client))
        return client

    yield start
    for server, thread, listener, client in servers:
        client.close()
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def client(
    serve: Callable[[Path], httpx.Client], tmp_path_factory: pytest.TempPathFactory
) -> httpx.Client:
    """A client of a server on a home of its own."""
    return serve(tmp_path_factory.mktemp("served") / "home")


@pytest.fixture(scope="module")
def reader(serve: Callable[[Path], httpx.Client], finished: Finished) -> httpx.Client:
    """A client of a server on the finished home."""
    return serve(finished.home)
