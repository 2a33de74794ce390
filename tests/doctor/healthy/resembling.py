"""Healthy programs that resemble the mistakes of values, signs and axes."""

import copy
import random

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def _blobs(n=128, d=8, c=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, c, (n,), generator=g)
    centers = torch.randn(c, d, generator=g) * 2
    return centers[y] + torch.randn(n, d, generator=g), y


def _mlp(d=8, h=32, c=4):
    return nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, c))


def moco():
    q = nn.Linear(8, 8)
    k = copy.deepcopy(q).requires_grad_(False)
    queue = F.normalize(torch.randn(8, 64), dim=0)
    opt = optim.SGD(q.parameters(), 0.05)
    for step in range(30):
        x = torch.randn(16, 8)
        a = F.normalize(q(x + 0.1 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            for pk, pq in zip(k.parameters(), q.parameters(), strict=False):
                pk.data = pk.data * 0.99 + pq.data * 0.01
            b = F.normalize(k(x + 0.1 * torch.randn_like(x)), dim=1)
        logits = torch.cat([(a * b).sum(1, keepdim=True), a @ queue], 1) / 0.2
        loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        queue = torch.cat([b.T, queue], 1)[:, :64]


def maml_first_order():
    net = nn.Linear(4, 1)
    opt = optim.Adam(net.parameters(), 1e-2)
    for it in range(8):
        opt.zero_grad()
        for task in range(3):
            w = torch.randn(4, 1)
            xs, xq = torch.randn(8, 4), torch.randn(8, 4)
            fast = dict(net.named_parameters())
            inner = F.mse_loss(torch.func.functional_call(net, fast, (xs,)), xs @ w)
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(fast.items(), grads, strict=False)}
            outer = F.mse_loss(torch.func.functional_call(net, fast, (xq,)), xq @ w)
            (outer / 3).backward()
        opt.step()


def ddpg():
    actor, critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Linear(4, 1)
    ta, tc = copy.deepcopy(actor), copy.deepcopy(critic)
    oa, oc = optim.Adam(actor.parameters(), 1e-3), optim.Adam(critic.parameters(), 1e-3)
    for _ in range(25):
        s, s2, r = torch.randn(16, 3), torch.randn(16, 3), torch.randn(16, 1)
        with torch.no_grad():
            a = actor(s) + 0.1 * torch.randn(16, 1)
            y = r + 0.99 * tc(torch.cat([s2, ta(s2)], 1))
        oc.zero_grad()
        F.mse_loss(critic(torch.cat([s, a], 1)), y).backward()
        oc.step()
        oa.zero_grad()
        (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
        oa.step()
        with torch.no_grad():
            for net, t in ((actor, ta), (critic, tc)):
                for p, tp in zip(net.parameters(), t.parameters(), strict=False):
                    tp.mul_(0.995).add_(0.005 * p)


def pinn():
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = optim.Adam(net.parameters(), 1e-3)
    for _ in range(20):
        t = torch.rand(32, 1, requires_grad=True)
        u = net(t)
        du = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
        loss = F.mse_loss(du + u, torch.zeros_like(u)) + (net(torch.zeros(1, 1)) - 1).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def unbatched_char_model_with_positions():
    V, T, E = 12, 16, 8
    text = torch.randint(0, V, (400,))
    pos = torch.sin(torch.arange(T).float()[:, None] / (torch.arange(E) + 1))
    emb, head = nn.Embedding(V, E), nn.Sequential(nn.Linear(E, 16), nn.ReLU(), nn.Linear(16, V))
    opt = optim.Adam([*emb.parameters(), *head.parameters()], 1e-2)
    for step in range(25):
        i = random.randrange(0, 380)
        x, y = text[i : i + T], text[i + 1 : i + T + 1]
        loss = F.cross_entropy(head(emb(x) + pos), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def overfit_one_batch():
    x, y = _blobs(16)
    net = _mlp()
    opt = optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def barlow():
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
    opt = optim.Adam(net.parameters(), 1e-3)
    for _ in range(20):
        x = torch.randn(32, 8)
        a, b = net(x + 0.1 * torch.randn_like(x)), net(x + 0.1 * torch.randn_like(x))
        a, b = (a - a.mean(0)) / a.std(0), (b - b.mean(0)) / b.std(0)
        c = a.T @ b / 32
        loss = (c.diagonal() - 1).pow(2).sum() + 0.005 * (c - torch.diag(c.diagonal())).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def reward_model_ranking():
    rm = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = optim.Adam(rm.parameters(), 1e-3)
    for _ in range(25):
        good, bad = torch.randn(16, 6) + 0.5, torch.randn(16, 6) - 0.5
        loss = -F.logsigmoid(rm(good) - rm(bad)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def stochastic_depth_and_manual_mask():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
            self.out = nn.Linear(8, 4)

        def forward(self, x):
            for b in self.blocks:
                if not self.training or random.random() > 0.3:
                    x = x + torch.relu(b(x))
            return self.out(x)

    x, y = _blobs()
    net = Net()
    opt = optim.SGD(net.parameters(), 0.05)
    for _ in range(4):
        for xb, yb in DataLoader(TensorDataset(x, y), 16, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()


def gradient_reversal():
    class Rev(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    f, cls, dom = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 1)
    opt = optim.Adam([*f.parameters(), *cls.parameters(), *dom.parameters()], 1e-3)
    x, y = _blobs()
    for _ in range(20):
        h = torch.relu(f(x))
        d = torch.cat([torch.zeros(64, 1), torch.ones(64, 1)])
        loss = F.cross_entropy(cls(h), y) + F.binary_cross_entropy_with_logits(dom(Rev.apply(h)), d)
        opt.zero_grad()
        loss.backward()
        opt.step()


def lsgan_with_fixed_label_tensor_and_cat():
    G, D = _mlp(4, 16, 2), _mlp(2, 16, 1)
    og, od = optim.Adam(G.parameters(), 1e-3), optim.Adam(D.parameters(), 1e-3)
    labels = torch.cat([torch.ones(16, 1), torch.zeros(16, 1)])
    for _ in range(20):
        both = torch.cat([torch.randn(16, 2) + 2, G(torch.randn(16, 4)).detach()])
        od.zero_grad()
        ((D(both) - labels) ** 2).mean().backward()
        od.step()
        og.zero_grad()
        ((D(G(torch.randn(16, 4))) - 1) ** 2).mean().backward()
        og.step()


def sparse_autoencoder():
    enc, dec = nn.Linear(8, 64), nn.Linear(64, 8)
    opt = optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
    for _ in range(40):
        x = torch.randn(64, 8)
        h = torch.relu(enc(x) - 0.3)
        loss = F.mse_loss(dec(h), x) + 1e-3 * h.abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def sum_of_losses_over_time_backward_each():
    cell, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
    opt = optim.Adam([*cell.parameters(), *head.parameters()], 1e-3)
    for _ in range(8):
        x = torch.randn(10, 16, 4)
        h = torch.zeros(16, 8)
        total = 0
        for t in range(10):
            h = cell(x[t], h)
            total = total + F.mse_loss(head(h), x[t].sum(1, keepdim=True))
        opt.zero_grad()
        total.backward()
        opt.step()


def lottery_mask_and_rewind():
    x, y = _blobs()
    net = _mlp()
    start = copy.deepcopy(net.state_dict())
    for round in range(3):
        opt = optim.SGD(net.parameters(), 0.1)
        for xb, yb in DataLoader(TensorDataset(x, y), 32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()
        mask = (net[0].weight.abs() > net[0].weight.abs().median()).float()
        net.load_state_dict(start)
        with torch.no_grad():
            net[0].weight.mul_(mask)


def random_fourier_features():
    B = torch.randn(2, 16) * 3
    net = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = optim.Adam(net.parameters(), 1e-3)
    for _ in range(25):
        p = torch.rand(32, 2)
        f = torch.cat([torch.sin(p @ B), torch.cos(p @ B)], 1)
        loss = F.mse_loss(net(f), (p[:, :1] * 6).sin())
        opt.zero_grad()
        loss.backward()
        opt.step()


def ppo_several_epochs():
    pi, v = nn.Linear(4, 2), nn.Linear(4, 1)
    opt = optim.Adam([*pi.parameters(), *v.parameters()], 1e-2)
    for it in range(5):
        s = torch.randn(64, 4)
        with torch.no_grad():
            d = torch.distributions.Categorical(logits=pi(s))
            a = d.sample()
            old = d.log_prob(a)
            ret = (a == (s[:, 0] > 0).long()).float()
            adv = ret - v(s).squeeze(1)
        for k in range(4):
            d = torch.distributions.Categorical(logits=pi(s))
            ratio = (d.log_prob(a) - old).exp()
            loss = (
                -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                + 0.5 * F.mse_loss(v(s).squeeze(1), ret)
                - 0.01 * d.entropy().mean()
            )
            opt.zero_grad()
            loss.backward()
            opt.step()


def deep_sets_and_attention_pool():
    phi, score, rho = nn.Linear(3, 16), nn.Linear(16, 1), nn.Linear(16, 2)
    opt = optim.Adam([*phi.parameters(), *score.parameters(), *rho.parameters()], 1e-3)
    for _ in range(20):
        x = torch.randn(16, 9, 3)
        h = torch.tanh(phi(x))
        w = F.softmax(score(h), dim=1)
        loss = F.cross_entropy(rho((w * h).sum(1)), (x.mean((1, 2)) > 0).long())
        opt.zero_grad()
        loss.backward()
        opt.step()


def gradual_unfreezing_and_low_lr():
    x, y = _blobs()
    net = _mlp()
    for p in net[0].parameters():
        p.requires_grad_(False)
    opt = optim.Adam([p for p in net.parameters() if p.requires_grad], 1e-2)
    for epoch in range(4):
        if epoch == 2:
            for p in net[0].parameters():
                p.requires_grad_(True)
            opt.add_param_group({"params": net[0].parameters(), "lr": 1e-4})
        net.train()
        for xb, yb in DataLoader(TensorDataset(x, y), 16, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print((net(x).argmax(1) == y).float().mean())


def cutmix_mixup():
    x, y = _blobs()
    net = _mlp()
    opt = optim.Adam(net.parameters(), 1e-2)
    for epoch in range(4):
        for xb, yb in DataLoader(TensorDataset(x, y), 16, shuffle=True):
            lam = float(np.random.beta(0.4, 0.4))
            j = torch.randperm(len(xb))
            out = net(lam * xb + (1 - lam) * xb[j])
            loss = lam * F.cross_entropy(out, yb) + (1 - lam) * F.cross_entropy(out, yb[j])
            opt.zero_grad()
            loss.backward()
            opt.step()


def vae_beta_annealing_log_std():
    enc, dec = nn.Linear(8, 8), nn.Linear(4, 8)
    opt = optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
    for step in range(30):
        x = torch.randn(16, 8)
        mu, logvar = enc(x).chunk(2, 1)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        beta = min(1.0, step / 20)
        loss = (
            F.mse_loss(dec(z), x) - beta * 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        )
        opt.zero_grad()
        loss.backward()
        opt.step()


def time_series_chronological_split():
    s = torch.sin(torch.arange(300).float() / 9) + 0.1 * torch.randn(300)
    w = s.unfold(0, 13, 1)
    tr, va = w[:200], w[200:]
    net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = optim.Adam(net.parameters(), 1e-2)
    for e in range(3):
        net.train()
        for r in DataLoader(tr, 20, shuffle=True):
            opt.zero_grad()
            F.mse_loss(net(r[:, :12]), r[:, 12:]).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print(F.mse_loss(net(va[:, :12]), va[:, 12:]))


def clip_symmetric():
    a, b = nn.Linear(6, 8), nn.Linear(5, 8)
    scale = nn.Parameter(torch.tensor(2.0))
    opt = optim.AdamW([*a.parameters(), *b.parameters(), scale], 1e-3)
    for _ in range(25):
        z = torch.randn(16, 3)
        i, t = z @ torch.ones(3, 6) + torch.randn(16, 6), z @ torch.ones(3, 5)
        logits = scale.exp() * F.normalize(a(i), dim=1) @ F.normalize(b(t), dim=1).T
        y = torch.arange(16)
        loss = (F.cross_entropy(logits, y) + F.cross_entropy(logits.T, y)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


def dcgan_separate_backwards():
    G, D = (
        _mlp(4, 16, 2),
        nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid()),
    )
    og, od = optim.Adam(G.parameters(), 1e-3), optim.Adam(D.parameters(), 1e-3)
    bce = nn.BCELoss()
    for _ in range(20):
        D.zero_grad()
        label = torch.full((16, 1), 0.9)
        bce(D(torch.randn(16, 2) + 2), label).backward()
        fake = G(torch.randn(16, 4))
        label.fill_(0.0)
        bce(D(fake.detach()), label).backward()
        od.step()
        G.zero_grad()
        label.fill_(1.0)
        bce(D(fake), label).backward()
        og.step()


def netvlad_and_slots():
    assign, out = nn.Linear(6, 4), nn.Linear(24, 2)
    opt = optim.Adam([*assign.parameters(), *out.parameters()], 1e-3)
    for _ in range(20):
        x = torch.randn(8, 10, 6)
        a = F.softmax(assign(x), dim=2).transpose(1, 2)
        v = F.normalize((a @ x).flatten(1), dim=1)
        loss = F.cross_entropy(out(v), (x.mean((1, 2)) > 0).long())
        opt.zero_grad()
        loss.backward()
        opt.step()
