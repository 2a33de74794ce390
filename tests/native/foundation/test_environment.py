"""The table of environment flags: its page is fresh, its values are typed, and it is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flambeau.native.foundation import environment

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_fresh() -> None:
    """Else: python -m flambeau.native.foundation.environment > docs/flags.md"""
    assert (ROOT / "docs" / "flags.md").read_text(encoding="utf-8") == environment.flags_page()


def test_every_flag_is_in_the_table() -> None:
    named = {
        name for path in (ROOT / "flambeau").rglob("*.py")
        for name in re.findall(r"FLAMBEAU_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    assert named == {flag.name for flag in environment.FLAGS}


def test_values_have_their_types(monkeypatch) -> None:
    monkeypatch.delenv("FLAMBEAU_DEBUG", raising=False)
    assert environment.DEBUG.value() == 0
    monkeypatch.setenv("FLAMBEAU_DEBUG", " 3 ")
    assert environment.DEBUG.value() == 3
    monkeypatch.setenv("FLAMBEAU_CACHE_SIZE", "0.5")
    assert environment.CACHE_SIZE.value() == 0.5


@pytest.mark.parametrize("text", ["yes", "-1", "1.5"])
def test_what_cannot_be_read_is_told(text, monkeypatch) -> None:
    monkeypatch.setenv("FLAMBEAU_DEBUG", text)
    with pytest.warns(UserWarning, match=f"FLAMBEAU_DEBUG='{text}' .* be an integer"):
        assert environment.DEBUG.value() == 0
