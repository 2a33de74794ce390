"""Programs that lie close to mistakes which the checks name, and are right."""

import functools

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def parameters_renamed_in_a_loop_and_used():
    net = nn.Linear(5, 1)
    for p in net.parameters():
        if p.dim() > 1:
            p = nn.init.orthogonal_(p)
    opt = optim.NAdam(net.parameters(), 1e-2)
    for _ in range(6):
        x, penalty = torch.randn(16, 5), 0.0
        for p in net.parameters():
            p = 1e-3 * p
            penalty = penalty + p.abs().sum()
        opt.zero_grad()
        (F.mse_loss(net(x), x.prod(1, keepdim=True)) + penalty).backward()
        opt.step()


def batches_with_a_large_loss_are_skipped():
    net = nn.Linear(6, 1)
    opt = optim.SGD(net.parameters(), 1e-2)
    for i in range(24):
        x = torch.randn(16, 6) * (10 if i % 3 == 0 else 1)
        loss = F.mse_loss(net(x), x.mean(1, keepdim=True))
        if loss.item() > 5:
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()


def two_phases_by_one_loss_line():
    net = nn.Linear(6, 2)
    opt = optim.SGD(net.parameters(), 1e-2)
    for _ in range(3):
        for phase in ("train", "check"):
            for _ in range(4):
                x = torch.randn(8, 6)
                loss = F.cross_entropy(net(x), (x[:, 0] > 0).long())
                if phase == "train":
                    opt.zero_grad()
                    loss.backward()
                    opt.step()


def loaders_of_growing_batches():
    x = torch.randn(70, 4)
    net = nn.Linear(4, 1)
    opt = optim.SGD(net.parameters(), 0.05)
    for size in (8, 64, 128):
        for a, b in DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), size, drop_last=True):
            opt.zero_grad()
            F.mse_loss(net(a), b).backward()
            opt.step()


class _Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x)


class _Clamped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


def functions_that_are_exact_and_straight_through():
    net = nn.Linear(4, 1)
    opt = optim.Adam(net.parameters(), 1e-2)
    for _ in range(4):
        x = torch.randn(32, 4)
        opt.zero_grad()
        F.mse_loss(_Softplus.apply(_Clamped.apply(net(x))), x[:, :1].exp()).backward()
        opt.step()


def padding_with_the_end_token():
    embedding, rnn, head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
    opt = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
    for _ in range(4):
        tokens = (torch.randint(1, 20, (16, 1)) + torch.arange(9)) % 19 + 1
        target = tokens[:, 1:].clone()
        for row, length in enumerate(torch.randint(3, 8, (16,)).tolist()):
            tokens[row, length:] = 0
            target[row, length - 1], target[row, length:] = 0, -100
        scores = head(rnn(embedding(tokens[:, :-1]))[0])
        opt.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), target.flatten()).backward()
        opt.step()


def returns_in_the_hundreds():
    net, value = nn.Linear(4, 2), nn.Linear(4, 1)
    opt = optim.Adam([*net.parameters(), *value.parameters()], 1e-2)
    for _ in range(30):
        states = torch.randn(25, 4)
        policy = torch.distributions.Categorical(logits=net(states))
        actions = policy.sample()
        gains = (10.0 * (actions == 1)).flip(0).cumsum(0).flip(0)
        guess = value(states).squeeze(1)
        loss = -(policy.log_prob(actions) * (gains - guess.detach())).mean()
        opt.zero_grad()
        (loss + 0.01 * F.mse_loss(guess, gains)).backward()
        opt.step()


def weight_of_a_term_by_slopes():
    """Losses are balanced by the sizes of their gradients, which have no graph."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    x, t = torch.randn(32, 4), torch.randn(32, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def balance(a, b):
        last = net[2].weight
        first = torch.autograd.grad(a, last, retain_graph=True)[0].norm()
        return first / (torch.autograd.grad(b, last, retain_graph=True)[0].norm() + 1e-4)

    for _ in range(5):
        out = net(x)
        a, b = F.mse_loss(out[:, :1], t), F.l1_loss(out[:, 1:], t)
        factor = balance(a, b)
        loss = a + factor * b
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _counted(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


class _Seldom(nn.Module):
    def __init__(self):
        super().__init__()
        self.seldom, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    @_counted
    def forward(self, x):
        return self.head(x if len(x) == 8 else self.seldom(x))


def layer_used_in_a_decorated_forward():
    net = _Seldom()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        F.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 1)).backward()
        optimizer.step()
