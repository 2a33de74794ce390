"""Datapipes: datasets that are built by chaining, `pipe.map(f).batch(8)`; `iter` has streams, `map`
has pipes with an index."""

from __future__ import annotations

from . import iter as iter
from . import map as map
