"""The schema's version: brought up to date once, under the writers' lock, or refused.

Two processes that start together both ask; the second finds the work done. A store written by a
newer Gridlaw is left alone.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from orchestrator.database import reading, writing
from sweeps.errors import StorageError

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(engine: Engine) -> None:
    """Create or migrate the store to the schema that this code speaks.

    Raises:
        StorageError: If the store was written by newer code, or the database refuses.
    """
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    newest = scripts.get_current_head()
    with reading(engine) as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    if found == newest:
        return
    with writing(engine) as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        known = {script.revision for script in scripts.walk_revisions()}
        if found is not None and found not in known:
            place = engine.url.render_as_string(hide_password=True)
            raise StorageError(
                f"the store {place} has schema {found}, written by a newer Gridlaw; "
                f"this one knows up to {newest}: upgrade Gridlaw or use another home"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
