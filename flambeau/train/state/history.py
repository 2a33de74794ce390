"""The result of `fit`: the logs of every epoch, shown as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from .formatting import list_scalars, shorten


class History(list[dict[str, Any]]):
    """A list of dicts, each epoch's logs, that prints as a table.

    A notebook shows it as an HTML table; `.df` is a pandas DataFrame.

    >>> from flambeau.train.state.history import History
    >>> History([{"epoch": 1, "loss": 0.5, "accuracy": 0.75}, {"epoch": 2, "loss": 0.25}])
    epoch    loss  accuracy
        1  0.5000    0.7500
        2  0.2500
    """

    @property
    def df(self) -> Any:
        """The table as a pandas DataFrame, indexed by epoch.

        Raises ImportError where pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            error.add_note("history.df needs pandas: pip install pandas")
            raise
        frame = pandas.DataFrame([dict(row) for row in self])
        return frame.set_index("epoch") if "epoch" in frame else frame

    def _format_cells(self) -> list[list[str]]:
        """Return the header, then a row of strings for each epoch."""
        rows = [list_scalars(row) for row in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[shorten(row[n]) if n in row else "" for n in names] for row in rows]
        return [names, *cells]

    def __repr__(self) -> str:
        if not self:
            return "[]"
        cells = self._format_cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        header, *rows = self._format_cells() if self else [[]]
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
