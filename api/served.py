"""What routes of more than one file take: the service behind them, and which sweep."""

from typing import Annotated

from fastapi import Depends, Path, Request

from orchestrator.service import Service


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(_service)]
Sweep = Annotated[str, Path(max_length=128, description="Id, unique name, or start of an id.")]
