"""Observers: replacements of library functions while a session watches. Each calls the original
and sends an event to the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Observer = Callable[[Callable, tuple, dict], Any]
