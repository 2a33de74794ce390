"""The scratch memory of a kernel's thread: slot size, and the two functions that kernels call."""

from __future__ import annotations

SLOT_BYTES = 8 << 20
USABLE_BYTES = SLOT_BYTES - 4096  # the first page holds the flag
TAKE, GIVE = "flambeau_scratch_take", "flambeau_scratch_give"
