"""Healthy programs with functions of their own, as people write them."""

import copy
import io

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler


def _data(n=64, classes=3):
    torch.manual_seed(0)
    y = torch.randint(0, classes, (n,))
    return torch.randn(n, 6) + y[:, None], y


class _Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 16), nn.Linear(16, classes)
        self.bn, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.4)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))


def usual_training_with_checkpoints():
    x, y = _data()
    train = DataLoader(TensorDataset(x[:48], y[:48]), 16, shuffle=True)
    test = DataLoader(TensorDataset(x[48:], y[48:]), 8)
    net = _Net()
    opt = optim.AdamW(net.parameters(), lr=1e-3)
    schedule = optim.lr_scheduler.StepLR(opt, 2, 0.5)
    best, file = float("inf"), io.BytesIO()
    for _ in range(4):
        net.train()
        for xb, yb in train:
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()
        schedule.step()
        net.eval()
        total = 0.0
        with torch.no_grad():
            for xb, yb in test:
                total += F.cross_entropy(net(xb), yb, reduction="sum").item()
        if total < best:
            best = total
            file = io.BytesIO()
            torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, file)
    file.seek(0)
    net.load_state_dict(torch.load(file)["net"])


def evaluated_before_it_is_trained():
    x, y = _data()
    net = _Net()
    net.eval()
    with torch.no_grad():
        F.cross_entropy(net(x), y)
    net.train()
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def cross_validation():
    x, y = _data()
    for fold in range(3):
        validation = torch.arange(64) % 3 == fold
        net = _Net()
        opt = optim.Adam(net.parameters())
        for _ in range(4):
            net.train()
            opt.zero_grad()
            F.cross_entropy(net(x[~validation]), y[~validation]).backward()
            opt.step()
        net.eval()
        with torch.inference_mode():
            (net(x[validation]).argmax(1) == y[validation]).float().mean().item()


def weighted_sampler_for_rare_classes():
    x, y = _data(classes=2)
    weights = torch.where(y == 0, 0.2, 0.8)
    loader = DataLoader(TensorDataset(x, y), 16, sampler=WeightedRandomSampler(weights, 64))
    net = _Net(2)
    opt = optim.Adam(net.parameters())
    for _ in range(2):
        for xb, yb in loader:
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()


def curriculum_from_easy_to_hard():
    x, y = _data()
    net = _Net()
    opt = optim.Adam(net.parameters())
    easy = x.norm(dim=1).argsort()
    for share in (16, 32, 64):
        loader = DataLoader(Subset(TensorDataset(x, y), easy[:share].tolist()), 16, shuffle=True)
        for xb, yb in loader:
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()


def learning_rate_finder():
    x, y = _data()
    net = _Net()
    start = copy.deepcopy(net.state_dict())
    opt = optim.SGD(net.parameters(), lr=1e-6)
    losses = []
    for _ in range(16):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        losses.append(loss.item())
        loss.backward()
        opt.step()
        for group in opt.param_groups:
            group["lr"] *= 3
    net.load_state_dict(start)


def snapshots_for_an_ensemble():
    x, y = _data()
    net, members = _Net(), []
    opt = optim.SGD(net.parameters(), lr=0.1)
    for cycle in range(3):
        schedule = optim.lr_scheduler.CosineAnnealingLR(opt, 4)
        for _ in range(4):
            net.train()
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
            schedule.step()
        members.append(copy.deepcopy(net).eval())
        for group in opt.param_groups:
            group["lr"] = 0.1
    with torch.no_grad():
        torch.stack([m(x).softmax(1) for m in members]).mean(0).argmax(1)


def pseudo_labels_between_updates():
    x, y = _data()
    net = _Net()
    opt = optim.SGD(net.parameters(), lr=0.05, nesterov=True, momentum=0.9)
    for _ in range(8):
        weak, strong = x + 0.01 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
        with torch.no_grad():
            p, label = net(weak).softmax(1).max(1)
            mask = (p > 0.5).float()
        loss = F.cross_entropy(net(x), y)
        loss = loss + (F.cross_entropy(net(strong), label, reduction="none") * mask).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def key_encoder_in_training_mode():
    torch.manual_seed(1)
    query = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    key = copy.deepcopy(query)
    for p in key.parameters():
        p.requires_grad = False
    queue = F.normalize(torch.randn(32, 4), dim=1)
    opt = optim.SGD(query.parameters(), lr=0.03)
    for _ in range(8):
        x = torch.randn(8, 6)
        with torch.no_grad():
            for a, b in zip(key.parameters(), query.parameters(), strict=True):
                a.mul_(0.99).add_(b, alpha=0.01)
            k = F.normalize(key(x + 0.1), dim=1)
        q = F.normalize(query(x), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue = torch.cat([queue[8:], k])


def gradient_reversal():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    x, y = _data()
    body, head, domain = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)
    opt = optim.Adam([*body.parameters(), *head.parameters(), *domain.parameters()])
    for _ in range(8):
        h = torch.relu(body(x))
        loss = F.cross_entropy(head(h), y)
        loss = loss + F.cross_entropy(domain(Reverse.apply(h)), torch.arange(64) % 2)
        opt.zero_grad()
        loss.backward()
        opt.step()


def straight_through_quantiser():
    torch.manual_seed(2)
    encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
    opt = optim.Adam([*encoder.parameters(), *decoder.parameters()])
    for _ in range(8):
        x = torch.randn(16, 6)
        z = torch.tanh(encoder(x))
        hard = z + (z.sign() - z).detach()
        opt.zero_grad()
        F.mse_loss(decoder(hard), x).backward()
        opt.step()


def hidden_state_of_a_policy_in_an_episode():
    torch.manual_seed(3)
    cell, head = nn.GRUCell(3, 8), nn.Linear(8, 2)
    opt = optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
    for _ in range(5):
        h, losses = torch.zeros(1, 8), []
        for _ in range(6):
            h = cell(torch.randn(1, 3), h)
            pi = torch.distributions.Categorical(logits=head(h))
            a = pi.sample()
            losses.append(-pi.log_prob(a) * float(a))
        opt.zero_grad()
        torch.cat(losses).sum().backward()
        opt.step()


def physics_with_a_trainable_constant():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    k = nn.Parameter(torch.tensor(1.0))
    opt = optim.Adam([*net.parameters(), k], lr=1e-2)
    for _ in range(8):
        s = torch.linspace(0, 1, 16)[:, None].requires_grad_()
        u = net(s)
        (du,) = torch.autograd.grad(u.sum(), s, create_graph=True)
        loss = ((du + k * u) ** 2).mean() + (net(torch.zeros(1, 1)) - 1).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def averaged_losses_reported_by_the_epoch():
    x, y = _data()
    net, total, count = _Net(), 0.0, 0
    opt = optim.SGD(net.parameters(), lr=0.1)
    history = []
    for _ in range(3):
        for xb, yb in zip(x.split(8), y.split(8), strict=True):
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total, count = total + loss.detach() * len(xb), count + len(xb)
        history.append(float(total / count))


def ordinal_targets_as_cumulative_bits():
    x, y = _data()
    net = nn.Linear(6, 2)
    opt = optim.Adam(net.parameters())
    bits = (y[:, None] > torch.arange(2)).float()
    for _ in range(6):
        opt.zero_grad()
        F.binary_cross_entropy_with_logits(net(x), bits).backward()
        opt.step()
    (torch.sigmoid(net(x)) > 0.5).sum(1)
