"""What tests of kernels share: running one compiled and interpreted, between poisoned margins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import KernelFunction, compile_kernel
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.ir import Kernel

MARGIN = 131  # elements before and after; odd, so that vectors are not aligned
POISON = 0xFF  # NaN in every floating-point type


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skips what a processor has no instructions for: float16 with FLAMBEAU_CPU=sse4."""
    try:
        return (yield)
    except NotImplementedError as error:
        if "cannot convert it" in str(error):
            pytest.skip(str(error))
        raise


def poisoned(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy of an array in the midst of poison: all of the memory, and the copy."""
    size = array.dtype.itemsize
    memory = np.full((array.size + 2 * MARGIN) * size, POISON, np.uint8)
    inside = memory[MARGIN * size : (MARGIN + array.size) * size].view(array.dtype)
    inside[...] = array.reshape(-1)
    return memory, inside


def unharmed(memory: np.ndarray, size: int) -> bool:
    """Whether the margins are as they were."""
    edge = MARGIN * size
    return bool((memory[:edge] == POISON).all() and (memory[len(memory) - edge :] == POISON).all())


def check(
    kernel: Kernel,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int] = (),
    rtol: float = 2e-6,
    atol: float = 1e-6,
    threads: Sequence[int] = (1, 2, 5),
) -> list[np.ndarray]:
    """Runs a kernel compiled and interpreted; the memories are the same afterwards. Gives them."""
    expected = [array.reshape(-1).copy() for array in arrays]
    interpret(kernel, expected, sizes)
    function = compile_kernel(kernel)
    with np.errstate(all="ignore"):
        compare(function, kernel, arrays, sizes, expected, rtol, atol, threads)
    return [want.reshape(array.shape) for want, array in zip(expected, arrays, strict=True)]


def compare(
    function: KernelFunction,
    kernel: Kernel,
    arrays: Sequence[np.ndarray],
    sizes: Sequence[int],
    expected: Sequence[np.ndarray],
    rtol: float,
    atol: float,
    threads: Sequence[int],
) -> None:
    """Runs a function with each number of threads; its memories are what is expected."""
    for count in threads:
        memories = [poisoned(array) for array in arrays]
        function.run([inside for _, inside in memories], sizes, count)
        for (memory, inside), want, buffer in zip(memories, expected, kernel.buffers, strict=True):
            message = f"{buffer.name}, {count} threads"
            assert unharmed(memory, inside.dtype.itemsize), f"margins of {message}"
            if buffer.parts is not None:  # which thread added what is the emitter's affair
                inside, want = (x.reshape(buffer.parts).sum(0) for x in (inside, want))
            if inside.dtype.kind in "biu":
                np.testing.assert_array_equal(inside, want, message)
            else:
                np.testing.assert_allclose(
                    inside.astype(np.float64), want.astype(np.float64), rtol, atol, err_msg=message
                )


@pytest.fixture(name="check", scope="session")
def _check() -> Callable[..., list[np.ndarray]]:
    return check


@pytest.fixture(name="compare", scope="session")
def _compare() -> Callable[..., None]:
    return compare


@pytest.fixture
def settled() -> None:
    """Waits for kernels that tests before asked for: they would be made among this test's."""
    for thread in threading.enumerate():
        if thread.name in ("flambeau-kernels", "flambeau compile"):
            thread.join(60)
