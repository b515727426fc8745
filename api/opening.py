"""Opening the service for one verb, so that no verb makes a home that it does not need.

A verb that reads wants a store that is there; planning works beside a missing store as if beside an
empty one; only submitting makes a home.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from orchestrator.service import Service
from orchestrator.settings import Home, Settings
from sweeps.errors import NotFoundError


@contextmanager
def making(settings: Settings) -> Iterator[Service]:
    """The service over the store of these settings, which is made if it is missing."""
    service = Service.open(settings)
    try:
        yield service
    finally:
        service.store.close()


@contextmanager
def reading(settings: Settings) -> Iterator[Service]:
    """The service over a store that is there.

    Raises:
        NotFoundError: If the home has no store.
    """
    if not has_store(settings):
        raise NotFoundError(
            f"there is no store in {settings.home}; `gridlaw run SPEC` makes one, "
            "and --home DIR names another folder"
        )
    with making(settings) as service:
        yield service


@contextmanager
def planning(settings: Settings) -> Iterator[Service]:
    """The service for planning alone: nothing is made in a home without a store."""
    if has_store(settings):
        with making(settings) as service:
            yield service
        return
    with TemporaryDirectory(prefix="gridlaw-plan-") as folder:
        empty = Home(Path(folder)).database_url
        with making(settings.model_copy(update={"database_url": empty})) as service:
            yield service


def has_store(settings: Settings) -> bool:
    """Whether there is a store to open; one that a setting names elsewhere is taken to be there."""
    ours = settings.database_url == settings.layout.database_url
    return not ours or settings.layout.database.exists()
