"""Observers: what takes the place of a library function while a session watches. Each calls the
original and tells the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Observer = Callable[[Callable, tuple, dict], Any]
