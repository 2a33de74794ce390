"""context_parallel: attention over cut sequences is that of one process; buffers are PyTorch's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .ranks import needs_gloo, run


def _see(size: int, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("context_parallel.py", size, arguments=arguments)]


def _check_attention(ranks: list[dict[str, Any]]) -> None:
    for seen in ranks:
        differences = {k: v for k, v in seen.items() if k.startswith("attention ")}
        assert len(differences) == 12
        assert all(value < 1e-5 for value in differences.values()), differences
        assert seen["afterwards"]


@needs_gloo
def test_attention_is_that_of_one_process() -> None:
    ranks = _see(2)
    _check_attention(ranks)
    for seen in ranks:
        assert seen["masks"] == ["NotImplementedError", "attn_bias is not supported yet"]
        assert seen["lengths"] == ["NotImplementedError", "is_causal requires the same query and "
                                   "context sequence lengths"]
        assert seen["ranks"][0] == "ValueError"
        assert seen["dtypes"][1].startswith("Expected query, key, and value to have the same dtype")
        assert seen["uneven parts"][0] == "NotImplementedError"
        assert seen["modules"][0] == seen["fast modules"][0] == "NotImplementedError"
        assert not any(seen["DTensors"][0][0][0])
        assert seen["other placements"][0] == "AssertionError"


@needs_gloo
def test_buffers_are_cut_and_whole_again() -> None:
    parts = [seen["balanced"] for seen in _see(2)]
    assert [part[0][0] for part in parts] == [[0, 1, 6, 7], [2, 3, 4, 5]]
    assert all(part[2][0] == list(range(8)) for part in parts)


@needs_gloo
@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 4])
def test_attention_is_that_of_one_process_among_others(size: int) -> None:
    _check_attention(_see(size))


@needs_gloo
@pytest.mark.parity
@pytest.mark.parametrize("size", [1, 2])
def test_buffers_and_errors_are_pytorchs(size: int) -> None:
    pytest.importorskip("torch")
    for actual, expected in zip(_see(size), _see(size, "torch"), strict=True):
        assert {name: actual[name] for name in expected} == expected
