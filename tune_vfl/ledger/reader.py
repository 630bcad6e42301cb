"""Asking a ledger's database: through SQLAlchemy, or a file at once, for that import takes longer than most answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from sqlalchemy import Connection


class Reader(Protocol):
    """A connection that answers questions."""

    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""

    def rows(self, query: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Return what a query finds; ``:name`` in it stands for one of the values."""


class SqlReader:
    """A reader through SQLAlchemy, of any database.

    Args:
        connection: open.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""
        import sqlalchemy

        return bool(sqlalchemy.inspect(self._connection).has_table(name))

    def rows(self, query: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Return what a query finds; ``:name`` in it stands for one of the values."""
        import sqlalchemy

        return self._connection.execute(sqlalchemy.text(query), values).all()


class FileReader:
    """A reader of a sqlite file; moments are texts there.

    Args:
        connection: open.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def has_table(self, name: str) -> bool:
        """Whether there is a table of this name."""
        return bool(self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name", name=name))

    def rows(self, query: str, **values: Any) -> Sequence[Sequence[Any]]:
        """Return what a query finds; ``:name`` in it stands for one of the values."""
        return self._connection.execute(query, values).fetchall()
