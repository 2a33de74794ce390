"""Mistakes that fresh programs had and no check named at first."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.distributions import Normal


def classes_of_a_mask_along_its_width():
    net = nn.Conv2d(1, 3, 3, padding=1)
    opt = optim.Adam(net.parameters())
    for _ in range(2):
        x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4, 8, 8))
        loss = F.nll_loss(F.log_softmax(net(x), dim=-1), y)  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def scores_of_pixels_flattened_with_classes_inside():
    net = nn.Conv2d(1, 3, 3, padding=1)
    opt = optim.Adam(net.parameters())
    for _ in range(3):
        x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4, 8, 8))
        loss = F.cross_entropy(net(x).view(-1, 3), y.view(-1))  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


class _Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Sequential(nn.Linear(2, 6), nn.Tanh())

    def forward(self, x):
        mean, scale = self.encode(x).chunk(2, dim=1)
        self.q = Normal(mean, scale.exp())
        return self.decode(self.draw())

    def draw(self):
        raise NotImplementedError


def latent_sampled_inside_of_the_model():
    class Plain(_Vae):
        def draw(self):
            return self.q.sample()  # WRONG

    net = Plain()
    opt = optim.Adam(net.parameters())
    for _ in range(12):
        x = torch.randn(16, 6)
        loss = F.mse_loss(net(x), x) + 0.1 * net.q.loc.pow(2).mean() + net.q.scale.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def average_that_is_assigned_to_a_name():
    net = nn.Linear(4, 1)
    average, opt = copy.deepcopy(net), optim.SGD(net.parameters(), 0.1)
    for _ in range(4):
        x = torch.randn(8, 4)
        opt.zero_grad()
        F.mse_loss(net(x), x[:, :1]).backward()
        opt.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), net.parameters(), strict=True):
                a = 0.9 * a + 0.1 * p  # WRONG


def weights_clamped_to_a_copy():
    net = nn.Linear(4, 1)
    opt = optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        opt.zero_grad()
        F.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 1)).backward()
        opt.step()
        for p in net.parameters():
            p.data.clamp(-0.1, 0.1)  # WRONG


def logits_that_are_rounded():
    net = nn.Linear(4, 3)
    for _ in range(3):
        x = 9 * torch.randn(16, 4)
        with torch.no_grad():
            hits = (torch.round(net(x)) == (x[:, :3] > 0).float()).float().mean()  # WRONG
    print(hits)


def smoothed_labels_that_sum_to_more_than_one():
    net = nn.Linear(4, 5)
    opt = optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        x, y = torch.randn(16, 4), torch.randint(0, 5, (16,))
        loss = F.cross_entropy(net(x), F.one_hot(y, 5) * 0.9 + 0.1)  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def backbone_under_no_grad_in_a_group_of_its_own():
    body, head = nn.Linear(4, 8), nn.Linear(8, 1)
    opt = optim.Adam([{"params": body.parameters(), "lr": 1e-4}, {"params": head.parameters()}])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = body, head

        def forward(self, x):
            with torch.no_grad():
                features = self.body(x)  # WRONG
            return self.head(features)

    net = Net()
    for _ in range(6):
        x = torch.randn(16, 4)
        opt.zero_grad()
        F.mse_loss(net(x), x[:, :1]).backward()
        opt.step()


def sequences_against_targets_without_their_axis():
    rnn, head = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for _ in range(2):
        x = torch.randn(6, 6, 1)
        loss = (head(rnn(x)[0]) - x[:, :, 0].roll(1, 1)).abs().mean()  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def rate_whose_logarithm_is_asked_for():
    net = nn.Linear(4, 1)
    opt = optim.Adam(net.parameters())
    for _ in range(2):
        x = torch.randn(16, 4)
        loss = F.poisson_nll_loss(net(x).exp(), torch.poisson(x[:, :1].exp()))  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def noise_of_another_draw_beside_a_time():
    net = nn.Linear(3, 2)
    opt = optim.Adam(net.parameters())
    for _ in range(10):
        clean, t = 0.1 * torch.randn(64, 2) + 1, torch.rand(64, 1)
        noisy = (1 - t) * clean + t * torch.randn(64, 2)
        noise = torch.randn(64, 2)  # WRONG
        loss = F.mse_loss(net(torch.cat([noisy, t], 1)), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()


def loss_of_each_step_overwritten():
    cell, head = nn.GRUCell(3, 6), nn.Linear(6, 1)
    opt = optim.Adam([*cell.parameters(), *head.parameters()])
    for _ in range(5):
        x, h = torch.randn(8, 4, 3), torch.zeros(8, 6)
        for t in range(4):
            h = cell(x[:, t], h)
            loss = F.mse_loss(head(h), x[:, t, :1])  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()
