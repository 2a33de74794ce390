"""Mistakes of what is carried from one batch, or one run, to the next."""

import io

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Dataset


def state_carried_over_batches_of_a_permutation():
    rnn, head, state = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 1), None
    x, y = torch.randn(64, 6, 2), torch.randn(64, 1)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for rows in torch.randperm(64).split(16):
        out, state = rnn(x[rows], state)  # WRONG
        state = tuple(s.detach() for s in state)
        loss = F.mse_loss(head(out[:, -1]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()


def _train(net, opt, first, last):
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
    for _ in range(first, last):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def resumed_without_the_moments():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    opt, file = optim.AdamW(net.parameters(), lr=1e-3), io.BytesIO()
    _train(net, opt, 0, 4)
    torch.save({"model": net.state_dict(), "optim": opt.state_dict(), "epoch": 4}, file)
    file.seek(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = optim.AdamW(net.parameters(), lr=1e-3)
    state = torch.load(file)
    net.load_state_dict(state["model"])  # WRONG
    _train(net, opt, state["epoch"], 8)


def triplets_whose_arguments_are_swapped():
    net, criterion = nn.Linear(6, 3), nn.TripletMarginLoss()
    opt = optim.Adam(net.parameters())
    for _ in range(3):
        x = torch.randn(16, 6)
        anchor, positive, negative = net(x), net(x + 0.1), net(x.roll(1, 0))
        loss = criterion(anchor, negative, positive)  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def windows_that_end_with_their_target():
    class Windows(Dataset):
        def __init__(self):
            self.series = torch.randn(100)

        def __len__(self):
            return 90

        def __getitem__(self, i):
            past = self.series[i:i + 10]
            future = self.series[i + 9]  # WRONG
            return past.unsqueeze(-1), future.unsqueeze(-1)

    rnn, head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 1)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for x, y in DataLoader(Windows(), batch_size=16, shuffle=True):
        loss = F.mse_loss(head(rnn(x)[1][-1]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def _error(prediction, target):
    return (prediction - target).square().mean()


def a_loss_of_ones_own_called_with_two_shapes():
    net = nn.Linear(8, 1)
    opt = optim.Adam(net.parameters())
    for _ in range(3):
        x, y = torch.randn(16, 8), torch.randn(16, 1)
        loss = _error(net(x).squeeze(-1), y)  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def a_training_mask_that_only_the_accuracy_uses():
    net, x, y = nn.Linear(6, 3), torch.randn(60, 6), torch.randint(0, 3, (60,))
    opt, train_mask = optim.Adam(net.parameters()), torch.arange(60) < 20
    test_mask = torch.arange(60) >= 40
    for _ in range(4):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)  # WRONG
        loss.backward()
        opt.step()
        with torch.no_grad():
            hits = (net(x).argmax(1) == y).float()
        [hits[m].mean().item() for m in (train_mask, test_mask)]


def rows_beside_the_training_mask_evaluated():
    net, x, y = nn.Linear(6, 3), torch.randn(60, 6), torch.randint(0, 3, (60,))
    opt, train_mask = optim.Adam(net.parameters()), torch.arange(60) < 20
    for _ in range(4):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)  # WRONG
        loss.backward()
        opt.step()
        best = net(x).argmax(1)
        (best[~train_mask] == y[~train_mask]).float().mean().item()


def a_penalty_of_data_in_a_method():
    class Gated(nn.Linear):
        def penalty(self):
            return self.weight.data.abs().sum()  # WRONG

    net = Gated(6, 1)
    opt = optim.Adam(net.parameters())
    for _ in range(4):
        x, y = torch.randn(16, 6), torch.randn(16, 1)
        loss = F.mse_loss(net(x), y) + 0.01 * net.penalty()
        opt.zero_grad()
        loss.backward()
        opt.step()
