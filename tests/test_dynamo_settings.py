"""torch._dynamo.config: settings are taken, and patched for a while."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_patched_settings_go_back():
    config = torch._dynamo.config
    config.suppress_errors = True
    with config.patch(suppress_errors=False, verbose=True), config.patch("cache_size_limit", 3):
        assert (config.suppress_errors, config.verbose, config.cache_size_limit) == (False, True, 3)

    @config.patch({"suppress_errors": None})
    def seen():
        return config.suppress_errors

    assert seen() is None
    assert (config.suppress_errors, config.verbose) == (True, None)
    del config.suppress_errors


def test_explain_names_itself_and_what_there_is():
    with pytest.raises(NotImplementedError, match=r"torch\._dynamo\.explain") as caught:
        torch._dynamo.explain(abs)(torch.ones(1))
    assert "torch.compile(f).explain()" in caught.value.__notes__[0]
