"""Healthy programs whose parts look like mistakes: states, tokens, shared memory, constants."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.distributions import Bernoulli, Categorical, Normal
from flambeau.utils.data import DataLoader, TensorDataset


def encoder_and_decoder_of_one_vocabulary():
    torch.manual_seed(0)
    embedding, head = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 20)
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    parts = nn.ModuleList([embedding, model, head])
    optimizer = optim.Adam(parts.parameters(), lr=1e-3)
    for _ in range(8):
        source, target = torch.randint(1, 20, (8, 9)), torch.randint(1, 20, (8, 9))
        source[:3, 6:] = 0
        target[:3, 7:] = 0
        mask = nn.Transformer.generate_square_subsequent_mask(8)
        out = model(
            embedding(source), embedding(target[:, :-1]), tgt_mask=mask,
            src_key_padding_mask=source == 0, tgt_key_padding_mask=target[:, :-1] == 0,
        )
        loss = F.cross_entropy(head(out).transpose(1, 2), target[:, 1:], ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def copying_task_with_attention_over_the_source():
    torch.manual_seed(0)
    embedding, head = nn.Embedding(12, 16), nn.Linear(16, 12)
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    parts = nn.ModuleList([embedding, model, head])
    optimizer = optim.Adam(parts.parameters(), lr=1e-3)
    for _ in range(8):
        tokens = torch.randint(1, 12, (8, 7))
        begun = torch.cat([torch.zeros(8, 1).long(), tokens[:, :-1]], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(7)
        out = model(embedding(tokens), embedding(begun), tgt_mask=mask)
        loss = F.cross_entropy(head(out).transpose(1, 2), tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def skip_grams_with_negative_samples():
    torch.manual_seed(0)
    inner, outer = nn.Embedding(50, 8), nn.Embedding(50, 8)
    optimizer = optim.SGD([*inner.parameters(), *outer.parameters()], lr=0.05)
    for _ in range(10):
        centre, near, far = (torch.randint(0, 50, s) for s in ((16,), (16,), (16, 5)))
        good = (inner(centre) * outer(near)).sum(1)
        bad = torch.bmm(outer(far), inner(centre)[:, :, None]).squeeze(2)
        loss = -F.logsigmoid(good).mean() - F.logsigmoid(-bad).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def expected_reward_by_enumeration():
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    value = nn.Linear(4, 3)
    optimizer = optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-2)
    for _ in range(10):
        states = torch.randn(32, 4)
        chances = policy(states).softmax(1)
        rewards = torch.randn(32, 3)
        loss = -(chances * value(states).detach()).sum(1).mean()
        loss = loss + F.mse_loss(value(states), rewards)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def variational_with_a_hand_made_sample():
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(12, 6), nn.Linear(3, 12)
    optimizer = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    prior = Normal(torch.zeros(3), torch.ones(3))
    for _ in range(10):
        x = torch.rand(32, 12)
        mean, log_scale = encoder(x).chunk(2, dim=1)
        q = Normal(mean, log_scale.exp())
        z = q.rsample()
        kl = (q.log_prob(z) - prior.log_prob(z)).sum(1).mean()
        loss = -Bernoulli(logits=decoder(z)).log_prob((x > 0.5).float()).sum(1).mean() + kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            decoder(prior.sample((4,))).sigmoid()


def penalty_that_is_only_watched():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    for _ in range(10):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        size = sum(p.data.pow(2).sum() for p in model.parameters())
        total = loss.item() + 1e-3 * size.item()
    return total


def gradient_penalty_with_its_graph():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(10):
        real, fake = torch.randn(16, 4) + 1, torch.randn(16, 4)
        mixed = (0.3 * real + 0.7 * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def weights_normalised_in_place_after_each_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3, bias=False))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=12, shuffle=True):
            x = x.clone()
            x += 0.05 * torch.randn_like(x)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            with torch.no_grad():
                model[2].weight.div_(model[2].weight.norm(dim=1, keepdim=True))


def pieces_of_a_song_with_state_in_order():
    torch.manual_seed(0)
    rnn, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 4)
    optimizer = optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-3)
    song = torch.randn(6, 61, 4)
    for _ in range(2):
        state = None
        for start in range(0, 60, 10):
            piece = song[:, start : start + 11]
            out, state = rnn(piece[:, :-1], state)
            state = tuple(s.detach() for s in state)
            loss = F.mse_loss(head(out), piece[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def adversary_and_task_in_turn():
    torch.manual_seed(0)
    body, task, judge = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)
    first = optim.Adam([*body.parameters(), *task.parameters()], lr=1e-3)
    second = optim.Adam(judge.parameters(), lr=1e-3)
    x, y, domain = torch.randn(32, 6), torch.randint(0, 3, (32,)), torch.randint(0, 2, (32,))
    for _ in range(14):
        second.zero_grad()
        F.cross_entropy(judge(body(x).detach()), domain).backward()
        second.step()
        first.zero_grad()
        h = body(x)
        (F.cross_entropy(task(h), y) - 0.1 * F.cross_entropy(judge(h), domain)).backward()
        first.step()


def flat_buffer_behind_all_parameters():
    torch.manual_seed(0)
    flat = 0.1 * torch.randn(6 * 3 + 3)
    weight, bias = nn.Parameter(flat[:18].view(3, 6)), nn.Parameter(flat[18:])
    optimizer = optim.SGD([weight, bias], lr=0.1)
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    for _ in range(8):
        optimizer.zero_grad()
        F.cross_entropy(F.linear(x, weight, bias), y).backward()
        optimizer.step()


def head_kept_for_later_in_a_dict():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 8)
            self.heads = nn.ModuleDict({"a": nn.Linear(8, 3), "b": nn.Linear(8, 2)})

        def forward(self, x, task="a"):
            return self.heads[task](F.relu(self.body(x)))

    torch.manual_seed(0)
    model, x, y = Model(), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def rewards_that_a_schedule_lowers_the_rate_by():
    torch.manual_seed(0)
    policy = nn.Linear(4, 3)
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)
    for _ in range(10):
        states = torch.randn(32, 4)
        actions = Categorical(logits=policy(states))
        chosen = actions.sample()
        reward = (chosen == states[:, :3].argmax(1)).float()
        loss = -(actions.log_prob(chosen) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(reward.mean())
