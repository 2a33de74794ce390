"""Healthy programs that do what is otherwise a mistake, and mean it."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.distributions import Categorical, Normal
from flambeau.utils.data import DataLoader, Dataset, TensorDataset


def deep_equilibrium_with_one_step_of_gradient():
    torch.manual_seed(0)
    cell, head = nn.Linear(8, 8), nn.Linear(8, 3)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    optimizer = optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(10):
        with torch.no_grad():
            z = torch.zeros(32, 8)
            for _ in range(5):
                z = torch.tanh(cell(z) + x)
        z = torch.tanh(cell(z) + x)
        optimizer.zero_grad()
        F.cross_entropy(head(z), y).backward()
        optimizer.step()


def pruned_by_masks_after_each_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    x, y = torch.randn(64, 8), torch.randint(0, 3, (64,))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    masks = [(torch.rand_like(p) > 0.8).float() for p in model.parameters()]
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        with torch.no_grad():
            for p, mask in zip(model.parameters(), masks, strict=True):
                p.mul_(mask)


def sequence_autoencoder_whose_target_is_its_input():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.encoder = nn.GRU(8, 8, batch_first=True)
            self.decoder = nn.GRU(8, 8, batch_first=True)
            self.head = nn.Linear(8, 20)

        def forward(self, tokens):
            _, code = self.encoder(self.embedding(tokens))
            steps = code.transpose(0, 1).expand(-1, tokens.shape[1], -1)
            return self.head(self.decoder(steps)[0])

    torch.manual_seed(0)
    model = Model()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(0, 20, (8, 6))
        loss = F.cross_entropy(model(tokens).transpose(1, 2), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def denoising_bert_with_padding():
    torch.manual_seed(0)
    embedding, head = nn.Embedding(21, 16, padding_idx=0), nn.Linear(16, 21)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    parts = nn.ModuleList([embedding, encoder, head])
    optimizer = optim.AdamW(parts.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(1, 20, (8, 10))
        for row, length in enumerate(torch.randint(4, 10, (8,)).tolist()):
            tokens[row, length:] = 0
        hidden = (torch.rand(8, 10) < 0.15) & (tokens != 0)
        hidden[:, 0] = True
        labels = tokens.masked_fill(~hidden, -100)
        seen = tokens.masked_fill(hidden, 20)
        out = head(encoder(embedding(seen), src_key_padding_mask=seen == 0))
        optimizer.zero_grad()
        F.cross_entropy(out.transpose(1, 2), labels).backward()
        optimizer.step()


def sequence_labels_from_both_sides():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.rnn = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
            self.head = nn.Linear(16, 4)

        def forward(self, tokens):
            return self.head(self.rnn(self.embedding(tokens))[0])

    torch.manual_seed(0)
    model = Tagger()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(0, 20, (8, 9))
        tags = tokens % 4
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten()).backward()
        optimizer.step()


def replay_buffer_overwritten_in_place():
    torch.manual_seed(0)
    online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = optim.Adam(online.parameters(), lr=1e-3)
    states, rewards, actions = torch.zeros(32, 4), torch.zeros(32), torch.zeros(32).long()
    running = torch.zeros(4)
    for step in range(40):
        state = torch.randn(4)
        running.mul_(0.9).add_(0.1 * state)
        with torch.no_grad():
            action = online(state - running).argmax()
        at = step % 32
        states[at], actions[at], rewards[at] = state, action, float(action == 1)
        if step < 8:
            continue
        rows = torch.randint(0, min(step, 32), (8,))
        value = online(states[rows]).gather(1, actions[rows, None]).squeeze(1)
        goal = rewards[rows] + 0.9 * target(states[rows]).max(1).values
        optimizer.zero_grad()
        F.smooth_l1_loss(value, goal).backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), online.parameters(), strict=True):
                old.lerp_(new, 0.05)


def cosine_restarted_on_purpose():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(64, 6), torch.randint(0, 3, (64,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4)
    for _ in range(24):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


def plateau_of_a_score_that_is_to_rise():
    torch.manual_seed(0)
    y = torch.randint(0, 3, (128,))
    x = F.one_hot(y, 6).float() + 0.5 * torch.randn(128, 6)
    model = nn.Linear(6, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=2)
    for _ in range(14):
        logits = model(x)
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        optimizer.step()
        scheduler.step((logits.argmax(1) == y).float().mean().item())


def experts_chosen_by_a_router():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(6, 8)
            self.experts = nn.ModuleList(nn.Linear(6, 6) for _ in range(8))
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            weights = self.router(x).softmax(1)
            best = weights.argmax(1)
            out = torch.zeros_like(x)
            for i in best.unique().tolist():
                rows = best == i
                out[rows] = self.experts[i](x[rows]) * weights[rows, i, None]
            return self.head(out)

    torch.manual_seed(0)
    model = Experts()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(12):
        x, y = torch.randn(6, 6), torch.randint(0, 3, (6,))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def unlearning_by_ascent_on_some_rows():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    keep, drop = torch.randn(32, 6), torch.randn(8, 6)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    y, z = torch.randint(0, 3, (32,)), torch.randint(0, 3, (8,))
    for _ in range(12):
        loss = F.cross_entropy(model(keep), y) - 0.1 * F.cross_entropy(model(drop), z)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def hypernetwork_writes_the_weights():
    torch.manual_seed(0)
    hyper = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4 * 3 + 3))
    optimizer = optim.Adam(hyper.parameters(), lr=1e-3)
    for _ in range(10):
        task, x, y = torch.randn(2), torch.randn(16, 4), torch.randint(0, 3, (16,))
        flat = hyper(task)
        logits = F.linear(x, flat[:12].view(3, 4), flat[12:])
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        optimizer.step()


class _Augmented(Dataset):
    def __init__(self):
        self.images = torch.rand(48, 1, 8, 8)
        self.seen = torch.zeros(48, dtype=torch.int64)

    def __len__(self):
        return 48

    def __getitem__(self, index):
        image = self.images[index].clone()
        image += 0.05 * torch.randn(1, 8, 8)
        self.seen[index] += 1
        return image.sub_(0.5).div_(0.25), int(index % 3)


def samples_changed_as_copies():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(),
        nn.LazyLinear(3),
    )
    loader = DataLoader(_Augmented(), batch_size=12, shuffle=True, drop_last=True)
    net(torch.rand(2, 1, 8, 8))
    optimizer = optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(x), y, label_smoothing=0.1).backward()
            optimizer.step()


def shared_weights_by_assignment():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 16)
            self.rnn = nn.LSTM(16, 16, batch_first=True)
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens, state=None):
            out, state = self.rnn(self.embedding(tokens), state)
            return self.head(out), state

    torch.manual_seed(0)
    model, text = Model(), torch.randint(0, 20, (4, 61))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        state = None
        for start in range(0, 60, 10):
            out, state = model(text[:, start : start + 10], state)
            state = tuple(s.detach() for s in state)
            loss = F.cross_entropy(out.transpose(1, 2), text[:, start + 1 : start + 11])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def policy_with_baseline_and_entropy():
    torch.manual_seed(0)
    policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)
    optimizer = optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)
    for _ in range(10):
        states, returns = torch.randn(32, 4), torch.randn(32)
        actions = Categorical(probs=policy(states).softmax(-1))
        chosen = actions.sample()
        values = critic(states).squeeze(-1)
        gain = (returns - values).detach()
        gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        loss = -(actions.log_prob(chosen) * gain).mean() - 0.01 * actions.entropy().mean()
        loss = loss + 0.5 * (returns - values).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def score_function_with_samples_that_have_no_gradient():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(10):
        mean, log_scale = net(torch.randn(32, 3)).chunk(2, dim=1)
        q = Normal(mean, log_scale.clamp(-5, 2).exp())
        action = q.sample()
        cost = (action - 1) ** 2
        optimizer.zero_grad()
        (q.log_prob(action) * (cost - cost.mean())).mean().backward()
        optimizer.step()


def summed_losses_over_small_batches():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 6), torch.randint(0, 3, (40,)))
    model = nn.Linear(6, 3)
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        for x, y in DataLoader(data, batch_size=8):
            F.cross_entropy(model(x), y, reduction="sum").backward()
        optimizer.step()


def input_gradient_shown_as_a_picture():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.rand(16, 1, 4, 4), torch.randint(0, 3, (16,))
    for step in range(8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % 4 == 0:
            model.eval()
            image = x[:1].clone().requires_grad_()
            (slope,) = torch.autograd.grad(model(image)[0, y[0]], image)
            slope.abs().max().item()
            model.train()


def random_features_that_are_never_trained():
    class Random(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("basis", torch.empty(6, 32).normal_())
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            return self.head(torch.cos(x @ self.basis))

    torch.manual_seed(0)
    model, x, y = Random(), torch.randn(64, 6), torch.randint(0, 3, (64,))
    optimizer = optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def warm_up_then_decay_by_groups():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(64, 6), torch.randint(0, 3, (64,))
    groups = [{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias]}]
    optimizer = optim.AdamW(groups, lr=1e-2)
    warm = optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=5)
    fall = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15)
    scheduler = optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[5])
    for _ in range(20):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()


def two_views_of_one_recording():
    torch.manual_seed(0)
    online, predictor = nn.Linear(8, 6), nn.Linear(6, 6)
    optimizer = optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05)
    signal = torch.randn(32, 8)
    for _ in range(10):
        a, b = (signal + 0.1 * torch.randn_like(signal) for _ in range(2))
        za, zb = online(a), online(b)
        loss = 0
        for p, z in ((predictor(za), zb), (predictor(zb), za)):
            loss = loss - F.cosine_similarity(p, z.detach(), dim=1).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
