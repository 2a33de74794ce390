"""`python -m flambeau`: the command `flambeau`."""

from __future__ import annotations

from .command.cli import leave, main

leave(main())
