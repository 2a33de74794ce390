"""The scratch memory of a kernel's thread: slot size, and the two functions that kernels call."""

from __future__ import annotations

from ...target.cost_model import SCRATCH_SLOT_BYTES

USABLE_BYTES = SCRATCH_SLOT_BYTES - 4096  # the first page holds the flag
TAKE, GIVE = "flambeau_scratch_take", "flambeau_scratch_give"
