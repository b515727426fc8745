"""`gridlaw serve`: the HTTP application here and the scheduler as a child, until told to end."""

import os
import socket
from ipaddress import ip_address
from threading import Thread

import typer
import uvicorn

from api.app import create_app
from api.interrupts import ending_as_interrupt
from api.scheduler_process import SchedulerProcess, scheduler
from orchestrator.settings import Settings
from sweeps.errors import ConflictError, GridlawError, InputError

LOOK_SECONDS = 0.5


def serve(settings: Settings, *, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; then stop taking requests, checkpoint what runs, and end.

    Raises:
        ConflictError: If the address is taken or this home has a scheduler already.
        GridlawError: If the scheduler ends by itself.
    """
    with _listening(host, port) as listener, ending_as_interrupt():
        try:
            with scheduler(settings, "--serve") as child:
                server = uvicorn.Server(
                    uvicorn.Config(
                        create_app(settings), log_level="warning", access_log=False, ws="none"
                    )
                )
                Thread(target=_end_with, args=(child, server), daemon=True).start()
                _announce(listener, settings)
                server.run(sockets=[listener])
                child.check()
                raise GridlawError(f"the scheduler ended by itself; its log is {child.log}")
        except KeyboardInterrupt:
            typer.echo("Stopped; `gridlaw serve` goes on where it stood", err=True)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError) as error:
        raise InputError(f"host = {host}: there is no such address ({error})") from error
    try:
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConflictError(f"cannot listen on {host}:{port}: {reason}") from error


def _announce(listener: socket.socket, settings: Settings) -> None:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Gridlaw serves {settings.home} at http://{shown}:{port}/", err=True)
    if not ip_address(host).is_loopback:
        typer.echo("Nobody is asked who they are: whoever reaches this port may submit", err=True)


def _end_with(child: SchedulerProcess, server: uvicorn.Server) -> None:
    while child.is_running(LOOK_SECONDS):
        pass
    server.should_exit = True
