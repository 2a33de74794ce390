"""Healthy programs beside the mistakes with terms, seeds, statistics and folds."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def pseudo_labels_within_the_sum():
    torch.manual_seed(0)
    net = nn.Linear(6, 3)

    def of_the_unlabelled(x):
        sure = torch.softmax(net(x), 1)
        return (F.cross_entropy(net(x), sure.argmax(1), reduction="none")
                * (sure.max(1).values > 0.4)).mean()

    opt = optim.Adam(net.parameters())
    for _ in range(6):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        loss = F.cross_entropy(net(x), y) + 0.5 * of_the_unlabelled(torch.randn(16, 6))
        opt.zero_grad()
        loss.backward()
        opt.step()


def dice_of_probabilities_and_accuracy_by_argmax():
    torch.manual_seed(0)
    net = nn.Conv2d(1, 3, 3, padding=1)

    def dice(logits, target):
        soft, truth = logits.softmax(1), F.one_hot(target, 3).permute(0, 3, 1, 2).float()
        return 1 - 2 * (soft * truth).sum() / (soft.sum() + truth.sum())

    opt = optim.Adam(net.parameters())
    for _ in range(6):
        x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4, 8, 8))
        logits = net(x)
        right = (logits.argmax(1) == y).float().mean()
        loss = F.cross_entropy(logits, y) + dice(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        assert 0 <= right <= 1


def statistics_recalibrated_by_passes_alone():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    opt = optim.Adam(net.parameters())
    for _ in range(8):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        for _ in range(10):
            net(torch.randn(32, 6) + 1)
    net.eval()
    with torch.no_grad():
        net(torch.randn(32, 6) + 1).argmax(1)


def cases_that_begin_with_one_seed():
    for width in (2, 3, 4, 5, 6, 7, 8, 9):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, width), nn.Dropout(0.1), nn.Linear(width, 1))
        opt = optim.AdamW(net.parameters())
        for _ in range(2):
            opt.zero_grad()
            F.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 1)).backward()
            opt.step()


def folds_from_the_same_weights():
    torch.manual_seed(0)
    x, y = torch.randn(80, 5), torch.randint(0, 2, (80,))
    folds = torch.randperm(80).chunk(4)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    begin = copy.deepcopy(net.state_dict())
    for k in range(4):
        net.load_state_dict(begin)
        opt = optim.Adam(net.parameters())
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


def pairs_of_waiting_times_that_weigh_scores():
    torch.manual_seed(0)
    net = nn.Linear(6, 1)
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(6):
        x, times = torch.randn(16, 6), torch.rand(16)
        apart = times - times[:, None]
        near = torch.exp(-apart.abs())
        score = net(x).squeeze(1)
        loss = ((score - times) ** 2 * near).mean() + (score * (times - times[:, None])).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
