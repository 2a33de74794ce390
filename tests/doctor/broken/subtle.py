"""Broken programs whose mistake no loss curve shows at once. The line to mend ends in `# WRONG`."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.distributions import Categorical, Normal
from flambeau.utils.data import DataLoader, Dataset, TensorDataset


class _Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.mean, self.log_scale = nn.Linear(16, 3), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 12))

    def encode(self, x):
        h = F.relu(self.body(x))
        return Normal(self.mean(h), self.log_scale(h).exp())


def latent_drawn_without_reparametrisation():
    torch.manual_seed(0)
    model, data = _Vae(), torch.randn(64, 12)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(12):
        q = model.encode(data)
        z = q.sample()  # WRONG
        kl = 0.5 * (q.mean**2 + q.stddev**2 - 2 * q.stddev.log() - 1).sum(1).mean()
        loss = F.mse_loss(model.decoder(z), data) + 0.01 * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class _Language(nn.Module):
    def __init__(self, causal=True, vocabulary=20, padding=None):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16, padding_idx=padding)
        self.position = nn.Parameter(0.02 * torch.randn(12, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, vocabulary)
        self.causal = causal

    def forward(self, tokens, padding_mask=None):
        n = tokens.shape[1]
        h = self.embedding(tokens) + self.position[:n]
        mask = nn.Transformer.generate_square_subsequent_mask(n) if self.causal else None
        return self.head(self.encoder(h, mask=mask, src_key_padding_mask=padding_mask))


def next_token_that_is_the_same_token():
    torch.manual_seed(0)
    model = _Language()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(0, 20, (8, 12))
        logits = model(tokens)
        loss = F.cross_entropy(logits.reshape(-1, 20), tokens.reshape(-1))  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def language_model_that_sees_the_future():
    torch.manual_seed(0)
    model = _Language()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(0, 20, (8, 13))
        hidden = model.embedding(tokens[:, :-1]) + model.position
        logits = model.head(model.encoder(hidden))  # WRONG
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def padding_mask_upside_down():
    torch.manual_seed(0)
    model = _Language(padding=0)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(1, 20, (8, 13))
        for row, length in enumerate(torch.randint(4, 12, (8,)).tolist()):
            tokens[row, length:] = 0
        logits = model(tokens[:, :-1], tokens[:, :-1] != 0)  # WRONG
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], ignore_index=0)
        optimizer.zero_grad()
        loss.nan_to_num().backward()
        optimizer.step()


def padding_counts_in_the_loss():
    torch.manual_seed(0)
    model = _Language(padding=0)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(10):
        tokens = torch.randint(1, 20, (8, 13))
        for row, length in enumerate(torch.randint(3, 12, (8,)).tolist()):
            tokens[row, length:] = 0
        logits = model(tokens[:, :-1], tokens[:, :-1] == 0)
        loss = F.cross_entropy(logits.reshape(-1, 20), tokens[:, 1:].reshape(-1))  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def policy_whose_probabilities_are_taken_for_logits():
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(dim=-1))
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    for _ in range(10):
        states = torch.randn(16, 4)
        actions = Categorical(logits=policy(states))  # WRONG
        chosen = actions.sample()
        reward = (chosen == 1).float()
        loss = -(actions.log_prob(chosen) * (reward - reward.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def advantage_that_trains_the_critic_upwards():
    torch.manual_seed(0)
    actor, critic = nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
    for _ in range(10):
        states, returns = torch.randn(16, 4), torch.randn(16)
        actions = Categorical(logits=actor(states))
        chosen = actions.sample()
        values = critic(states).squeeze(1)
        advantage = returns - values
        loss = -(actions.log_prob(chosen) * advantage).mean()  # WRONG
        loss = loss + F.mse_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def tied_weight_that_is_two_parameters():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 16)
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = nn.Parameter(self.embedding.weight)  # WRONG

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    torch.manual_seed(0)
    model = Model()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        tokens = torch.randint(0, 20, (8, 13))
        loss = F.cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def noise_added_to_the_data_itself():
    torch.manual_seed(0)
    data, labels = torch.randn(64, 6), torch.randint(0, 3, (64,))
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        for start in range(0, 64, 16):
            batch = data[start : start + 16]
            batch += 0.1 * torch.randn(16, 6)  # WRONG
            loss = F.cross_entropy(model(batch), labels[start : start + 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def dataset_normalised_again_each_epoch():
    class Normalised(Dataset):
        def __init__(self):
            self.data = 3 + 2 * torch.randn(64, 6)
            self.labels = torch.randint(0, 3, (64,))

        def __len__(self):
            return 64

        def __getitem__(self, index):
            sample = self.data[index]
            sample -= 3  # WRONG
            sample /= 2  # WRONG
            return sample, self.labels[index]

    torch.manual_seed(0)
    loader = DataLoader(Normalised(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def parameter_that_nobody_filled():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(6, 3))  # WRONG
            self.bias = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x @ self.weight + self.bias

    torch.manual_seed(0)
    model, x, y = Scale(), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def learning_rate_set_on_the_optimizer():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(8):
        optimizer.lr = 0.1 * 0.5**epoch  # WRONG
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def cosine_in_epochs_stepped_by_the_batch():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 6), torch.randint(0, 3, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model, epochs = nn.Linear(6, 3), 5
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()  # WRONG


def plateau_that_waits_for_accuracy_to_fall():
    torch.manual_seed(0)
    y = torch.randint(0, 3, (128,))
    x = 1.5 * F.one_hot(y, 6).float()[:, :6] + torch.randn(128, 6)
    model = nn.Linear(6, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1)  # WRONG
    for _ in range(14):
        logits = model(x)
        optimizer.zero_grad()
        F.cross_entropy(logits, y).backward()
        optimizer.step()
        accuracy = (logits.argmax(1) == y).float().mean().item()
        scheduler.step(accuracy)


def scaled_gradients_stepped_as_they_are():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=1e-5)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()  # WRONG


def gradient_ascent_on_cross_entropy():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(30):
        loss = -F.cross_entropy(model(x), y)  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def gradient_penalty_without_a_graph():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.Adam(critic.parameters(), lr=1e-3)
    for _ in range(8):
        real, fake = torch.randn(16, 4) + 1, torch.randn(16, 4)
        mixed = (0.5 * real + 0.5 * fake).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed)  # WRONG
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def state_of_another_batch():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 2)
            self.state = None

        def forward(self, x):
            out, state = self.rnn(x, self.state)  # WRONG
            self.state = state.detach()
            return self.head(out[:, -1])

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 7, 4), torch.randint(0, 2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = Tagger()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()


def second_layer_left_out_of_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.norm = nn.Linear(6, 16), nn.LayerNorm(16)
            self.fc2 = nn.Linear(16, 16)  # WRONG
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            h = F.relu(self.norm(self.fc1(x)))
            return self.head(F.relu(h))

    torch.manual_seed(0)
    model, x, y = Net(), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def statistics_of_the_batch_by_layer_norm():
    torch.manual_seed(0)
    first, head, y = nn.Linear(6, 16), nn.Linear(16, 3), torch.randint(0, 3, (32,))
    x = torch.randn(32, 6)
    optimizer = optim.Adam([*first.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(8):
        h = first(x)
        h = F.layer_norm(h, h.shape)  # WRONG
        loss = F.cross_entropy(head(F.relu(h)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def result_thrown_away():
    torch.manual_seed(0)
    model, y = nn.Linear(6, 3), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x = 200 * torch.rand(32, 6)
        x.div(255)  # WRONG
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def regulariser_of_data():
    torch.manual_seed(0)
    model, x, y = nn.Linear(6, 3), torch.randn(32, 6), torch.randint(0, 3, (32,))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        penalty = sum(p.data.pow(2).sum() for p in model.parameters())  # WRONG
        loss = F.cross_entropy(model(x), y) + 1e-3 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
