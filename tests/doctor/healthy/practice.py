"""Healthy programs of daily practice: loops with evaluation, averages, folds, masks, agents."""

from flambeau import nn
from flambeau.optim.swa_utils import AveragedModel, SWALR, update_bn
from flambeau.utils.data import DataLoader, TensorDataset
from flambeau.utils.data import random_split, WeightedRandomSampler
import copy
import flambeau as torch
import flambeau.nn.functional as F


def folds_of_a_tied_autoencoder():
    class Tied(nn.Module):
        def __init__(self, d=12, h=5):
            super().__init__()
            self.W = nn.Parameter(torch.empty(h, d, dtype=torch.float64))
            nn.init.xavier_uniform_(self.W)
            self.b = nn.Parameter(torch.zeros(h, dtype=torch.float64))
            self.c = nn.Parameter(torch.zeros(d, dtype=torch.float64))

        def forward(self, x):
            return torch.sigmoid(x @ self.W.t() + self.b) @ self.W + self.c

    torch.manual_seed(0)
    data = torch.randn(100, 3, dtype=torch.float64) @ torch.randn(3, 12, dtype=torch.float64)
    scores = []
    for fold in range(5):
        hold = torch.arange(100) % 5 == fold
        tr, va = data[~hold], data[hold]
        mean, std = tr.mean(0), tr.std(0)
        tr, va = (tr - mean) / std, (va - mean) / std
        model = Tied()
        opt = torch.optim.Adam(model.parameters(), lr=0.02)
        for epoch in range(20):
            noisy = tr + 0.1 * torch.randn_like(tr)
            loss = (model(noisy) - tr).pow(2).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            scores.append((model(va) - va).pow(2).mean().item())


def early_stopping_on_weighted_samples():
    torch.manual_seed(0)
    x = torch.randn(500, 6)
    y = (x[:, 0] > 1).long()
    seeded = torch.Generator().manual_seed(1)
    tr, va = random_split(TensorDataset(x, y), [400, 100], generator=seeded)
    lab = torch.tensor([tr[i][1] for i in range(len(tr))])
    w = (1.0 / lab.bincount().float())[lab]
    dl = DataLoader(tr, 32, sampler=WeightedRandomSampler(w, len(tr)))
    vl = DataLoader(va, 64)
    model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(32, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    best, state, bad = 1e9, None, 0
    for epoch in range(8):
        model.train()
        for a, b in dl:
            opt.zero_grad(set_to_none=False)
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
        model.eval()
        total, cm = 0.0, torch.zeros(2, 2)
        with torch.inference_mode():
            for a, b in vl:
                o = model(a)
                total += nn.functional.cross_entropy(o, b, reduction="sum").item()
                cm.index_put_((b, o.argmax(1)), torch.ones(len(b)), accumulate=True)
        total /= len(va)
        if total < best:
            best, state, bad = total, copy.deepcopy(model.state_dict()), 0
        else:
            bad += 1
            if bad > 2:
                break
    model.load_state_dict(state)


def missing_labels():
    torch.manual_seed(0)
    x = torch.randn(300, 20)
    y = (x[:, :5] > 0).float()
    y[torch.rand_like(y) < 0.3] = float("nan")
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    log_var = nn.Parameter(torch.zeros(5))
    opt = torch.optim.Adam(list(model.parameters()) + [log_var], lr=3e-3)
    bce = nn.BCEWithLogitsLoss(reduction="none")
    for epoch in range(6):
        for idx in torch.randperm(300).split(50):
            logits = model(x[idx])
            mask = ~torch.isnan(y[idx])
            target = torch.nan_to_num(y[idx])
            per = (bce(logits, target) * mask).sum(0) / mask.sum(0).clamp(min=1)
            loss = (per * torch.exp(-log_var) + 0.5 * log_var).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
        with torch.no_grad():
            prob = torch.sigmoid(model(x))
            ((prob > 0.5).float() == y)[~torch.isnan(y)].float().mean()


def straight_through_codes():
    torch.manual_seed(0)

    class VQ(nn.Module):
        def __init__(self, k=16, d=4):
            super().__init__()
            self.book = nn.Embedding(k, d)
            self.book.weight.data.uniform_(-1 / k, 1 / k)

        def forward(self, z):
            idx = torch.cdist(z, self.book.weight).argmin(1)
            q = self.book(idx)
            loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
            return z + (q - z).detach(), loss, idx

    enc, vq = nn.Linear(8, 4), VQ()
    dec = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    opt = torch.optim.Adam([*enc.parameters(), *vq.parameters(), *dec.parameters()], lr=1e-2)
    data = torch.randn(4, 8)[torch.randint(0, 4, (256,))] + 0.05 * torch.randn(256, 8)
    for e in range(5):
        for xb in data.split(64):
            q, extra, idx = vq(enc(xb))
            loss = F.mse_loss(dec(q), xb) + extra
            opt.zero_grad()
            loss.backward()
            opt.step()


def averaged_weights():
    torch.manual_seed(0)
    x = torch.randn(256, 6)
    dl = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    swa = AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    cos = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=6)
    swalr = SWALR(opt, swa_lr=0.05, anneal_epochs=2)
    for epoch in range(8):
        model.train()
        for a, b in dl:
            opt.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
        if epoch >= 5:
            swa.update_parameters(model)
            swalr.step()
        else:
            cos.step()
    update_bn(dl, swa)
    swa.eval()
    with torch.no_grad():
        (swa(x).argmax(1) == (x[:, 0] > 0).long()).float().mean()


def _squashed_action(actor, s):
    mu, ls = actor(s).chunk(2, -1)
    std = ls.clamp(-5, 2).exp()
    u = mu + std * torch.randn_like(mu)
    a = torch.tanh(u)
    lp = (-0.5 * ((u - mu) / std) ** 2 - std.log() - 0.919).sum(-1, True)
    return a, lp - torch.log(1 - a**2 + 1e-6).sum(-1, True)


def _follow_slowly(targets, sources):
    with torch.no_grad():
        for target, source in zip(targets, sources, strict=True):
            for tp, p in zip(target.parameters(), source.parameters(), strict=True):
                tp.lerp_(p, 0.01)


def _update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def soft_actor_critic():
    torch.manual_seed(0)
    actor, q1, q2 = (nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, o))
                     for i, o in ((3, 2), (4, 1), (4, 1)))
    t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
    log_alpha = torch.zeros(1, requires_grad=True)
    oa = torch.optim.Adam(actor.parameters(), 3e-4)
    oq = torch.optim.Adam([*q1.parameters(), *q2.parameters()], 1e-3)
    ol = torch.optim.Adam([log_alpha], 1e-3)
    buf = torch.zeros(300, 3 + 1 + 1 + 3 + 1)
    s = torch.randn(3)
    for t in range(200):
        with torch.no_grad():
            a, _ = _squashed_action(actor, s[None])
        s2 = 0.9 * s + 0.1 * a[0] + 0.05 * torch.randn(3)
        done = float(t % 40 == 39)
        buf[t % 300] = torch.cat([s, a[0], -(s2 ** 2).sum()[None], s2, torch.tensor([done])])
        s = torch.randn(3) if done else s2
        if t < 64:
            continue
        S, A, R, S2, D = buf[torch.randint(0, t, (32,))].split((3, 1, 1, 3, 1), 1)
        with torch.no_grad():
            a2, lp2 = _squashed_action(actor, S2)
            both = torch.cat([S2, a2], 1)
            y = R + 0.98 * (1 - D) * (torch.min(t1(both), t2(both)) - log_alpha.exp() * lp2)
        sa = torch.cat([S, A], 1)
        _update(oq, F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y))
        a, lp = _squashed_action(actor, S)
        both = torch.cat([S, a], 1)
        _update(oa, (log_alpha.exp().detach() * lp - torch.min(q1(both), q2(both))).mean())
        _update(ol, -(log_alpha * (lp.detach() - 1)).mean())
        _follow_slowly((t1, t2), (q1, q2))


def pruned_weights():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 3))
    X = torch.randn(240, 10)
    Y = X[:, :3].argmax(1)
    Xv, Yv = X[200:], Y[200:]
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    masks = {}
    best, best_state = 0.0, None
    for epoch in range(8):
        net.train()
        for idx in torch.randperm(200).split(40):
            loss = nn.functional.cross_entropy(net(X[idx]), Y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            with torch.no_grad():
                for p in net.parameters():
                    if p in masks:
                        p.mul_(masks[p])
        if epoch == 3:
            for p in net.parameters():
                if p.ndim == 2:
                    masks[p] = (p.abs() > p.abs().flatten().kthvalue(p.numel() // 2).values).float()
        net.eval()
        with torch.no_grad():
            acc = (net(Xv).argmax(1) == Yv).float().mean().item()
        if acc > best:
            best, best_state = acc, copy.deepcopy(net.state_dict())
    net.load_state_dict(best_state)


def trainer_with_callbacks():
    class Trainer:
        def __init__(self, model, opt, loss_fn, callbacks=()):
            self.model, self.opt, self.loss_fn = model, opt, loss_fn
            self.callbacks, self.log = callbacks, []

        def _run(self, loader, train):
            self.model.train(train)
            sums, n = torch.zeros(2), 0
            with torch.set_grad_enabled(train):
                for x, y in loader:
                    out = self.model(x)
                    loss = self.loss_fn(out, y)
                    if train:
                        self.opt.zero_grad()
                        loss.backward()
                        self.opt.step()
                    sums += torch.stack([loss.detach() * len(x), (out.argmax(1) == y).sum()])
                    n += len(x)
            return (sums / n).tolist()

        def fit(self, train, val, epochs):
            for e in range(epochs):
                self.log.append((self._run(train, True), self._run(val, False)))
                for c in self.callbacks:
                    c(self)

    torch.manual_seed(0)
    x = torch.randn(300, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    m = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1),
                      nn.Linear(32, 3))
    o = torch.optim.Adam(m.parameters(), lr=5e-3)
    s = torch.optim.lr_scheduler.ExponentialLR(o, 0.9)
    t = Trainer(m, o, nn.CrossEntropyLoss(label_smoothing=0.05), [lambda tr: s.step()])
    t.fit(DataLoader(TensorDataset(x[:240], y[:240]), 24, shuffle=True),
          DataLoader(TensorDataset(x[240:], y[240:]), 60), 6)


def accuracy_of_both_parts():
    torch.manual_seed(0)
    x = torch.randn(3000, 8)
    y = (x[:, 0] + x[:, 1] > 0).long()
    train, test = TensorDataset(x[:2400], y[:2400]), TensorDataset(x[2400:], y[2400:])
    loader = DataLoader(train, 16, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    @torch.no_grad()
    def accuracy(ds):
        model.eval()
        hits = sum((model(a).argmax(1) == b).sum().item() for a, b in DataLoader(ds, 100))
        model.train()
        return hits / len(ds)

    for epoch in range(3):
        for a, b in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
        assert accuracy(train) > 0.4 and accuracy(test) > 0.4


def causal_attention_with_dropout():
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self, d=16, T=10):
            super().__init__()
            self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.gate = nn.Parameter(torch.ones(1))
            self.bias = nn.Parameter(torch.zeros(T, T))
            self.register_buffer("m", torch.triu(torch.ones(T, T, dtype=torch.bool), 1))
            self.ln = nn.LayerNorm(d)

        def forward(self, x):
            q, k, v = self.qkv(self.ln(x)).chunk(3, -1)
            s = (q @ k.mT) * self.gate / q.size(-1) ** 0.5 + self.bias
            w = F.softmax(s.masked_fill(self.m, float("-inf")), -1)
            w = F.dropout(w, 0.1, self.training)
            return x + self.o(w @ v)

    emb, pos, blk, head = nn.Embedding(20, 16), nn.Embedding(10, 16), Block(), nn.Linear(16, 20)
    ps = [p for m in (emb, pos, blk, head) for p in m.parameters()]
    opt = torch.optim.AdamW(ps, lr=3e-3)
    seq = torch.randint(0, 20, (500,))
    for it in range(40):
        i = torch.randint(0, 489, (16,))
        x = torch.stack([seq[j:j + 10] for j in i])
        y = torch.stack([seq[j + 1:j + 11] for j in i])
        loss = F.cross_entropy(head(blk(emb(x) + pos(torch.arange(10)))).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
