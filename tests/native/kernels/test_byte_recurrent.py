"""Recurrent layers of 8-bit integers: all steps in one kernel, against NumPy's step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau.native.jit.kernel_function import compile_kernel
from flambeau.native.kernels.byte_products import panel_columns
from flambeau.native.kernels.byte_recurrent import ByteRecurrentForm, build_byte_recurrent
from flambeau.native.kernels.recurrent_cells import CELLS
from flambeau.native.loop_ir.interpreter import interpret
from flambeau.native.loop_ir.verify import verify
from flambeau.native.runtime.fast_call import call_on_threads
from flambeau.ops.native.byte_products import pack_panels
from flambeau.tensor.quantizers import SMALLEST_SCALE, choose_parameters

Arrays = dict[str, np.ndarray]


def draw(cell: str, steps: int, rows: int, width: int, spread: float) -> Arrays:
    """A layer's weights, and an input and states whose values reach up to `spread`."""
    rng, wide = np.random.default_rng(width * rows + steps), CELLS[cell].gates * width

    def uniform(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    return {"x": uniform(steps, rows, wide), "h": uniform(rows, width) * np.float32(spread),
            "c": uniform(rows, width), "w": rng.integers(-128, 128, (wide, width), np.int8),
            "scales": np.abs(uniform(wide)) * np.float32(0.002), "bias": uniform(wide)}


def run_step(cell: str, v: Arrays, x: np.ndarray) -> np.ndarray:
    """Compute one step in NumPy, changing the states."""
    h = v["h"]
    scale, zero = choose_parameters(float(h.min()), float(h.max()), 0, 127)
    inverse = np.float32(1) / np.float32(scale)
    codes = np.clip(np.rint(h.astype(np.float64) * inverse + zero), 0, 127).astype(np.int64)
    total = (codes - zero) @ v["w"].T.astype(np.int64)
    sums = total * (np.float32(scale) * v["scales"]).astype(np.float64) + v["bias"]
    gates = CELLS[cell].gates
    result = CELLS[cell].forward({
        "x": np.split(x, gates, -1), "s": np.split(sums.astype(np.float32), gates, -1),
        "h": h, "c": v["c"]})
    v["h"], = result["y"]
    if CELLS[cell].carries:
        v["c"], = result["cells"]
    return v["h"]


def list_arguments(cell: str, v: Arrays, y: np.ndarray, backward: bool) -> list[Any]:
    """The kernel's arrays and sizes."""
    (steps, rows, wide), width = v["x"].shape, v["h"].shape[1]
    panels = pack_panels(v["w"])
    assert panels is not None
    first, sign = (steps - 1, -1) if backward else (0, 1)
    states = [v["h"], v["c"]] if CELLS[cell].carries else [v["h"]]
    work = [np.empty(3, np.float32), np.empty((rows, width // 4), np.int32),
            np.empty((rows, wide), np.float32)]
    return [v["x"][first], *states, y[first], panels.quads, v["w"].sum(1, dtype=np.int32),
            v["scales"], v["bias"], *work, steps, rows, sign * rows * wide, sign * rows * width]


def build(cell: str, width: int) -> Any:
    kernel = build_byte_recurrent(
        ByteRecurrentForm(cell, width, panel_columns(), float(SMALLEST_SCALE), 127))
    verify(kernel)
    return kernel


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("spread", [0, 1e-45, 1e-4, 1, 50])
@pytest.mark.parametrize(("cell", "steps", "rows", "width"), [
    ("lstm", 5, 3, 8), ("lstm", 2, 7, 36), ("gru", 4, 1, 20), ("gru", 3, 17, 64)])
def test_steps_are_those_of_numpy(
    cell: str, steps: int, rows: int, width: int, spread: float, backward: bool
) -> None:
    v = draw(cell, steps, rows, width, spread)
    y = np.full((steps, rows, width), np.nan, np.float32)
    arguments = list_arguments(cell, {**v, "h": (h := v["h"].copy()), "c": (c := v["c"].copy())},
                               y, backward)
    call_on_threads(compile_kernel(build(cell, width)).address, *arguments, threads=1)
    order = range(steps - 1, -1, -1) if backward else range(steps)
    for t in order:
        np.testing.assert_allclose(y[t], run_step(cell, v, v["x"][t]), rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(h, y[order[-1]])
    if CELLS[cell].carries:
        np.testing.assert_allclose(c, v["c"], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("ends", [
    (0.0, 0.5), (-0.5, 0.0), (0.0, 1e-5), (-1e-5, 0.0), (-1e-6, 2e-6)])
def test_scales_of_one_sided_and_of_small_states(ends: tuple[float, float]) -> None:
    v = draw("gru", 1, 2, 8, 1)
    v["h"] = np.linspace(*ends, 16, dtype=np.float32).reshape(2, 8)
    y = np.empty((1, 2, 8), np.float32)
    arguments = list_arguments("gru", {**v, "h": v["h"].copy()}, y, False)
    call_on_threads(compile_kernel(build("gru", 8)).address, *arguments, threads=1)
    scale, zero = choose_parameters(*ends, 0, 127)
    inverse, kernel_zero, kernel_scale = arguments[7]
    assert (kernel_scale, int(kernel_zero)) == (np.float32(scale), zero)
    assert inverse == np.float32(1) / np.float32(scale)
    np.testing.assert_allclose(y[0], run_step("gru", v, v["x"][0]), rtol=1e-5, atol=2e-6)


def test_the_interpreter_agrees() -> None:
    v = draw("lstm", 2, 2, 8, 1)
    y = np.empty((2, 2, 8), np.float32)
    arguments = list_arguments("lstm", v, y, False)
    arrays = [a.reshape(-1) for a in arguments[:-4]]
    arrays[0] = v["x"].reshape(-1)
    arrays[3] = y.reshape(-1)
    expected = draw("lstm", 2, 2, 8, 1)
    interpret(build("lstm", 8), arrays, arguments[-4:])
    for t in range(2):
        np.testing.assert_allclose(
            y[t], run_step("lstm", expected, expected["x"][t]), rtol=1e-5, atol=2e-6)
