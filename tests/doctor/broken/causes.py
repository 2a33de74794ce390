"""Broken programs whose effect shows far from their cause. The line to mend ends in `# WRONG`."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Subset, TensorDataset


def all_rows_scaled_before_the_split():
    torch.manual_seed(0)
    x, y = 3 * torch.randn(80, 5) + 1, torch.randint(0, 2, (80,))
    x = (x - x.mean(0)) / x.std(0)  # WRONG
    net = nn.Linear(5, 2)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net.train()
        optimizer.zero_grad()
        F.cross_entropy(net(x[:60]), y[:60]).backward()
        optimizer.step()
        net.eval()
        with torch.no_grad():
            net(x[60:]).argmax(1)


def validation_begins_in_the_training():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(96, 5), torch.randint(0, 2, (96,)))
    train = Subset(data, range(64))
    test = Subset(data, range(48, 96))  # WRONG
    net = nn.Linear(5, 2)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net.train()
        for x, y in DataLoader(train, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, _ in DataLoader(test, batch_size=16):
                net(x)


def denoiser_is_given_the_clean_sample():
    torch.manual_seed(0)
    data, net = torch.randn(64, 4), nn.Linear(4, 4)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(10):
        noise = torch.randn_like(data)
        noisy = data + 0.5 * noise
        output = net(data)  # WRONG
        loss = F.mse_loss(output, noise) + 0.0 * noisy.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def penalty_of_a_function_has_no_gradient():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x, t = torch.randn(16, 4), torch.randn(16, 1)

    def size():
        return sum(p.abs().sum().item() for p in net.parameters())  # WRONG

    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.mse_loss(net(x), t) + 1e-3 * size()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def slope_of_a_function_has_no_graph():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(critic.parameters(), lr=0.1)

    def penalty(points):
        points = points.requires_grad_()
        (slope,) = torch.autograd.grad(critic(points).sum(), points)  # WRONG
        return (slope.norm(dim=1) - 1).pow(2).mean()

    for _ in range(3):
        extra = penalty(torch.randn(8, 2))
        loss = critic(torch.randn(8, 2)).mean() + 10 * extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def log_probabilities_of_an_episode_are_stacked():
    torch.manual_seed(0)
    body, actor, critic = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)
    optimizer = optim.Adam([*body.parameters(), *actor.parameters(), *critic.parameters()])
    for _ in range(3):
        logs, values = [], []
        for _ in range(5):
            h = torch.tanh(body(torch.randn(4)))
            actions = torch.distributions.Categorical(logits=actor(h))
            logs.append(actions.log_prob(actions.sample()))
            values.append(critic(h).squeeze())
        advantage = torch.randn(5) - torch.stack(values)
        loss = advantage.pow(2).mean() - (torch.stack(logs) * advantage).mean()  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
