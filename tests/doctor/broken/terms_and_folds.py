"""Mistakes that stand in functions which the loop calls, or show only over several folds."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.distributions import Categorical


def dice_of_classes_by_argmax():
    net = nn.Conv2d(1, 3, 3, padding=1)

    def dice(logits, target):
        mask = F.one_hot(logits.argmax(1), 3).float()  # WRONG
        truth = F.one_hot(target, 3).float()
        return 1 - 2 * (mask * truth).sum() / (mask.sum() + truth.sum())

    opt = optim.Adam(net.parameters())
    for _ in range(3):
        x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4, 8, 8))
        logits = net(x)
        loss = F.cross_entropy(logits, y) + dice(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def overlap_of_masks_by_a_threshold():
    net = nn.Conv2d(1, 1, 3, padding=1)
    opt = optim.Adam(net.parameters())
    for _ in range(3):
        x, y = torch.randn(4, 1, 8, 8), (torch.rand(4, 1, 8, 8) > 0.5).float()
        logits = net(x)
        mask = (torch.sigmoid(logits) > 0.5).float()  # WRONG
        overlap = (mask * y).sum() / (mask + y).clamp(max=1).sum()
        loss = F.binary_cross_entropy_with_logits(logits, y) + (1 - overlap)
        opt.zero_grad()
        loss.backward()
        opt.step()


def penalty_of_slopes_without_a_graph():
    critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def penalty(real, fake):
        share = torch.rand(len(real), 1)
        point = (share * real + (1 - share) * fake).requires_grad_()
        slope, = torch.autograd.grad(critic(point).sum(), point)  # WRONG
        return ((slope.norm(dim=1) - 1) ** 2).mean()

    opt = optim.Adam(critic.parameters())
    for _ in range(4):
        real, fake = torch.randn(16, 2) + 1, torch.randn(16, 2)
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        opt.zero_grad()
        loss.backward()
        opt.step()


def two_views_normalised_over_the_batch():
    net = nn.Linear(8, 4)
    opt = optim.Adam(net.parameters())
    for _ in range(4):
        x = torch.randn(16, 8)
        both = torch.cat([net(x + 0.1 * torch.randn(16, 8)), net(x + 0.1 * torch.randn(16, 8))])
        z = F.normalize(both, dim=0)  # WRONG
        alike = (z @ z.T / 0.5).masked_fill(torch.eye(32, dtype=torch.bool), -1e9)
        pairs = torch.cat([torch.arange(16, 32), torch.arange(16)])
        loss = F.cross_entropy(alike, pairs)
        opt.zero_grad()
        loss.backward()
        opt.step()


def folds_of_one_model():
    torch.manual_seed(0)
    x, y = torch.randn(80, 5), torch.randint(0, 2, (80,))
    folds = torch.randperm(80).chunk(4)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))  # WRONG
    opt = optim.Adam(net.parameters())
    for k in range(4):
        train = torch.cat([folds[i] for i in range(4) if i != k])
        net.train()
        for _ in range(3):
            for rows in train[torch.randperm(60)].split(20):
                loss = F.cross_entropy(net(x[rows]), y[rows])
                opt.zero_grad()
                loss.backward()
                opt.step()
        net.eval()
        with torch.no_grad():
            (net(x[folds[k]]).argmax(1) == y[folds[k]]).float().mean()


def advantages_of_a_column_and_a_row():
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
    policy, critic = nn.Linear(16, 2), nn.Linear(16, 1)
    parts = nn.ModuleList([net, policy, critic])
    opt = optim.Adam(parts.parameters())
    for _ in range(4):
        hidden = net(torch.randn(32, 4))
        actions = Categorical(logits=policy(hidden))
        taken, value = actions.sample(), critic(hidden)
        reward = torch.where(taken == 0, 1.0, -1.0)
        advantage = reward - value.detach()  # WRONG
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        loss = -(actions.log_prob(taken) * advantage).mean() \
            + (value.squeeze(1) - reward).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
