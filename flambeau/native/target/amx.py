"""The geometry of AMX tiles: 16 rows of 64 bytes, and pairs of bfloat16 along the depth."""

SIDE = 16  # rows and columns of a tile of sums
DEPTH_PER_TILE = 32  # depth of one instruction
ROW_BYTES = 64  # bytes of a tile's row
TILE_BYTES = SIDE * ROW_BYTES
