"""Alembic's entry: runs the migrations on the connection in the configuration's attributes.

The caller's transaction is used as it is, so that several revisions apply wholly or not at all.
"""

from alembic import context

from orchestrator.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    transactional_ddl=True,
)
context.run_migrations()
