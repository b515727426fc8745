"""Alembic migrations of the store; `env` runs them on the connection that it is handed."""
