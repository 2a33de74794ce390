"""Recurrent layers on batches without sequences."""

import pytest


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True},
                                     {"batch_first": True}])
@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_results_and_gradients_are_empty(torch, name, options):
    layer = getattr(torch.nn, name)(3, 4, **options)
    shape = (0, 5) if options.get("batch_first") else (5, 0)
    x = torch.zeros(*shape, 3, requires_grad=True)
    y = layer(x)[0]
    y.sum().backward()
    assert y.shape == (*shape, 8 if options.get("bidirectional") else 4)
    assert x.grad.shape == x.shape and not layer.weight_ih_l0.grad.any()
