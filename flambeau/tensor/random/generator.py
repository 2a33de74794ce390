"""`Generator`: PyTorch's CPU random generator, a Mersenne Twister drawn 624 words at a time.

Takes a seed, or a state in PyTorch's bytes. `words(n)` returns the next n 32-bit words as a NumPy
array. The distributions are in distributions.py, normal.py, integers.py and rejection_sampling.py.
"""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ..devices import device as Device
from . import native

DEFAULT_SEED = 67280421310721
BLOCK = 624  # words in the twister's state, drawn at each refill
_KEY_BYTES = 4 * (BLOCK + 1)  # NumPy's state: the words of the key, then the position
_LARGEST_RAW = 4096  # up to this count, random_raw is faster than RandomState.randint

# Byte layout of a state in PyTorch's checkpoints (5056 bytes).
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "normal_x", "normal_y", "normal_rho",
                  "normal_valid", "float_normal", "float_normal_valid"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", BLOCK), "<f8", "<f8", "<f8", "<i4", "<f4",
                    "?"],
        "offsets": [0, 8, 12, 16, 24, 5016, 5024, 5032, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)


class Generator:
    """A random stream equal to `torch.Generator`'s for the same seed.

    Raises RuntimeError for a device other than the CPU.

    >>> Generator().manual_seed(0).words(3).tolist()
    [2357136044, 2546248239, 3071714933]
    """

    # Replaced by the tensor layer, so that users see states as uint8 tensors.
    wrap_state: Callable[[np.ndarray], Any] = staticmethod(lambda state: state)
    unwrap_state: Callable[[Any], Any] = staticmethod(lambda state: state)

    def __init__(self, device: Device | str | int | None = None) -> None:
        self.device = Device("cpu") if device is None else Device(device)
        if self.device.type != "cpu":
            raise RuntimeError(
                f"Generator(): there is no random generator for device '{self.device}', "
                "only for 'cpu'"
            )
        self.lock = threading.RLock()
        # `_bits` is always at the end of a block; `_block` holds that block's words, of which
        # `_position` are used.
        self._bits = np.random.MT19937(0)
        self._legacy = np.random.RandomState(self._bits)
        self._block = np.empty(BLOCK, np.uint32)
        self._reseed(DEFAULT_SEED)

    def _reseed(self, seed: int) -> None:
        with self.lock:
            self._seed = seed
            self._legacy.seed(seed & 0xFFFFFFFF)
            self._position = BLOCK
            self._fresh = True  # PyTorch counts from 0 before the first word, to 624 after the last
            self.next_normal: float | None = None
            self._next_float: float | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed`, in [-2**63, 2**64); return the generator itself."""
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(
                f"Overflow when unpacking long long: manual_seed takes -2**63 to 2**64 - 1, "
                f"got {seed}"
            )
        self._reseed(int(seed) % (1 << 64))
        return self

    def initial_seed(self) -> int:
        """Return the seed that this stream started from."""
        return self._seed

    def seed(self) -> int:
        """Restart from a seed provided by the operating system; return that seed."""
        self._reseed(secrets.randbits(64))
        return self._seed

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` words as uint32. Read-only: may be a view of the block."""
        with self.lock:
            start = self._position
            end = start + count
            if end <= BLOCK:
                self._position = end
                return self._block[start:end]
            return self._draw_across_blocks(start, count)

    def words_in(self, memory: np.ndarray, count: int) -> np.ndarray:
        """Like `words`, but may use `memory` as buffer: valid only until the next call."""
        with self.lock:
            if self._position + count <= BLOCK:
                return self.words(count)
            return self._draw_across_blocks(self._position, count, memory[:count])

    def _draw_across_blocks(
        self, start: int, count: int, words: np.ndarray | None = None
    ) -> np.ndarray:
        spare = BLOCK - start
        rest = (count - spare) % BLOCK
        full_blocks = count - spare - rest
        if words is None:
            words = np.empty(count, np.uint32)
        words[:spare] = self._block[start:]
        if full_blocks:
            self._draw_blocks(words[spare : spare + full_blocks])
        if rest:
            self._block = self._bits.random_raw(BLOCK).astype(np.uint32)
            words[count - rest :] = self._block[:rest]
        self._position = rest or BLOCK
        self._fresh = False
        return words

    def _draw_blocks(self, words: np.ndarray) -> None:
        # NumPy's state holds the 624 words of the key, then the position in it.
        if native.twist(self._bits.ctypes.state_address, words):
            return
        if words.size <= _LARGEST_RAW:
            words[...] = self._bits.random_raw(words.size)
        else:
            words[...] = self._legacy.randint(0, 1 << 32, words.size, dtype=np.uint32)

    def spare_words(self) -> int:
        """Return the number of unused words in the current block."""
        return BLOCK - self._position

    def give_back(self, count: int) -> None:
        """Undo the last `count` words drawn, which must be from the current block."""
        self._position -= count

    def bookmark(self) -> tuple[Any, ...]:
        """Return what `return_to` needs to draw the same words again; faster than get_state."""
        with self.lock:
            key = ctypes.string_at(self._bits.ctypes.state_address, _KEY_BYTES)
            return (key, self._block, self._position, self._fresh, self._seed, self.next_normal,
                    self._next_float)

    def return_to(self, bookmark: tuple[Any, ...]) -> None:
        """Restore the state of a bookmark of this generator."""
        with self.lock:
            ctypes.memmove(self._bits.ctypes.state_address, bookmark[0], _KEY_BYTES)
            (self._block, self._position, self._fresh, self._seed, self.next_normal,
             self._next_float) = bookmark[1:]

    def get_state(self) -> Any:
        """Return the state in PyTorch's format of 5056 bytes."""
        state = np.zeros((), STATE)
        with self.lock:
            spent = 0 if self._fresh else self._position
            state["seed"] = self._seed
            state["left"] = 1 if self._fresh else BLOCK + 1 - spent
            state["seeded"] = 1
            state["next"] = spent
            state["key"] = self._bits.state["state"]["key"]
            if self.next_normal is not None:
                state["normal_valid"], state["normal_y"] = 1, self.next_normal
            if self._next_float is not None:
                state["float_normal_valid"], state["float_normal"] = True, self._next_float
        return Generator.wrap_state(state.reshape(1).view(np.uint8))

    def set_state(self, new_state: Any) -> Generator:
        """Restore a state from `get_state`, here or in PyTorch; return the generator itself."""
        data = Generator.unwrap_state(new_state)
        if not isinstance(data, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if data.dtype != np.uint8:
            raise TypeError(f"RNG state must be a torch.ByteTensor, but its dtype is {data.dtype}")
        if data.size != STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE.itemsize} but found the input "
                f"RNG state size to be {data.size}"
            )
        state = np.ascontiguousarray(data).reshape(-1).view(STATE)[0]
        left, spent = int(state["left"]), int(state["next"])
        if not (state["seeded"] and 1 <= left <= BLOCK and spent <= BLOCK):
            raise RuntimeError(
                f"Invalid mt19937 state: seeded={int(state['seeded'])}, left={left}, next={spent}"
            )
        with self.lock:
            self._load(state, left)
        return self

    def _load(self, state: np.void, left: int) -> None:
        key = state["key"].astype(np.uint32)
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 0}}
        self._block = self._bits.random_raw(BLOCK).astype(np.uint32)
        self._position = BLOCK + 1 - left
        self._fresh = left == 1 and int(state["next"]) == 0
        self._seed = int(state["seed"])
        self.next_normal = float(state["normal_y"]) if state["normal_valid"] else None
        self._next_float = float(state["float_normal"]) if state["float_normal_valid"] else None

    def clone_state(self) -> Generator:
        """Return another generator in the same state."""
        state = self.get_state()
        return Generator(self.device).set_state(state)

    def get_offset(self) -> int:
        """Raise NotImplementedError: only CUDA's counter-based generators have an offset."""
        raise NotImplementedError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Raise NotImplementedError: only CUDA's counter-based generators have an offset."""
        raise NotImplementedError("CPU Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """Raise NotImplementedError: only for generators captured in CUDA graphs."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Raise NotImplementedError: only for generators captured in CUDA graphs."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (self.device,), (self._seed, None, self.get_state())

    def __setstate__(self, saved: tuple[int, None, Any]) -> None:
        self.set_state(saved[2])


default_generator = Generator()
default_generator.seed()
