"""EmbeddingBag trains inside a compiled step, and to the same numbers."""

import warnings

import pytest

import flambeau as torch


def train(mode, compiled):
    torch.manual_seed(0)
    bag, head = torch.nn.EmbeddingBag(20, 4, mode=mode), torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam([*bag.parameters(), *head.parameters()], lr=0.01)

    def step(rows, offsets, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(bag(rows, offsets)), labels)
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    draw = torch.Generator().manual_seed(1)
    offsets, labels = torch.arange(0, 24, 3), torch.arange(8) % 3
    return [run(torch.randint(20, (24,), generator=draw), offsets, labels).item() for _ in range(6)]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_step_is_compiled(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "step stays eager"
        actual = train(mode, True)
    assert actual == pytest.approx(train(mode, False), rel=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_second_derivatives(mode):
    rows, offsets = torch.tensor([0, 1, 1, 3, 2]), torch.tensor([0, 3])
    weight = torch.rand(4, 2, dtype=torch.float64).requires_grad_()

    def function(weight):
        y = torch.nn.functional.embedding_bag(rows, weight, offsets, mode=mode, padding_idx=3)
        return (y**3).sum()

    assert torch.autograd.gradcheck(function, weight)
    assert torch.autograd.gradgradcheck(function, weight)


FORMS = {
    "rows of one length": ({}, lambda rows: (rows.reshape(8, 3),)),
    "weights": ({"mode": "sum"}, lambda rows: (rows, torch.arange(0, 24, 3),
                                               torch.linspace(-1, 1, 24))),
    "an offset behind the last": ({"include_last_offset": True},
                                  lambda rows: (rows, torch.arange(0, 27, 3))),
    "padding": ({"padding_idx": 3}, lambda rows: (rows, torch.arange(0, 24, 3))),
    "an empty bag": ({}, lambda rows: (rows, torch.tensor([0, 3, 3, 9, 12, 15, 18, 21]))),
    "a scale by frequency": ({"scale_grad_by_freq": True, "mode": "sum"},
                             lambda rows: (rows, torch.arange(0, 24, 3))),
    "rows of bounded norm": ({"max_norm": 1.0}, lambda rows: (rows, torch.arange(0, 24, 3))),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_trains_to_the_same_numbers(form):
    settings, arguments = FORMS[form]

    def train(compiled):
        torch.manual_seed(0)
        bag, head = torch.nn.EmbeddingBag(20, 4, **settings), torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD([*bag.parameters(), *head.parameters()], lr=0.1)

        def step(labels, *arguments):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(head(bag(*arguments)), labels)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if compiled else step
        draw, labels = torch.Generator().manual_seed(1), torch.arange(8) % 3
        losses = [run(labels, *arguments(torch.randint(20, (24,), generator=draw))).item()
                  for _ in range(8)]
        return [*losses, *bag.weight.flatten().tolist()]

    assert train(True) == pytest.approx(train(False), rel=1e-5, abs=1e-7)
