"""`python -m flambeau`: the command `flambeau`."""

from __future__ import annotations

import sys

from .command.cli import main

sys.exit(main())
