"""Healthy programs: autoencoders, flows, diffusion, energies, language models, recurrent state."""

import math

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def variational_autoencoder():
    torch.manual_seed(0)

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Linear(20, 16)
            self.mu, self.log_var = nn.Linear(16, 3), nn.Linear(16, 3)
            self.decode = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 20),
                                        nn.Sigmoid())

        def forward(self, x):
            h = F.relu(self.encode(x))
            mu, log_var = self.mu(h), self.log_var(h)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
            return self.decode(z), mu, log_var

    model = VAE()
    opt = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        x = torch.rand(16, 20)
        recon, mu, log_var = model(x)
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
        opt.zero_grad()
        (bce + kld).backward()
        opt.step()
    with torch.no_grad():
        model.decode(torch.randn(4, 3))


def vector_quantised_autoencoder():
    torch.manual_seed(1)
    encoder, decoder, codes = nn.Linear(8, 4), nn.Linear(4, 8), nn.Embedding(16, 4)
    opt = optim.Adam([*encoder.parameters(), *decoder.parameters(), *codes.parameters()], lr=1e-3)
    for _ in range(8):
        x = torch.randn(20, 8)
        z = encoder(x)
        nearest = codes(torch.cdist(z, codes.weight).argmin(1))
        loss = F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(z, nearest.detach())
        z = z + (nearest - z).detach()
        loss = loss + F.mse_loss(decoder(z), x)
        opt.zero_grad()
        loss.backward()
        opt.step()


def diffusion():
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))
    opt = optim.AdamW(net.parameters(), lr=1e-3)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0)
    for _ in range(8):
        x, t = torch.randn(16, 2), torch.randint(0, 50, (16,))
        noise, a = torch.randn_like(x), alphas[t][:, None]
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / 50], 1)), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()


def normalising_flow():
    torch.manual_seed(3)
    scale, shift = nn.Linear(1, 1), nn.Linear(1, 1)
    nn.init.zeros_(scale.weight)
    nn.init.zeros_(scale.bias)
    opt = optim.Adam([*scale.parameters(), *shift.parameters()], lr=1e-2)
    for _ in range(8):
        x = torch.randn(32, 2)
        s = torch.tanh(scale(x[:, :1]))
        z = torch.cat([x[:, :1], x[:, 1:] * s.exp() + shift(x[:, :1])], 1)
        log_p = -0.5 * (z**2).sum(1) - math.log(2 * math.pi) + s.sum(1)
        loss = -log_p.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def energy_model_with_langevin_dynamics():
    torch.manual_seed(4)
    energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
    opt = optim.Adam(energy.parameters(), lr=1e-3)
    for _ in range(5):
        x = torch.randn(16, 2)
        sample = torch.randn(16, 2)
        for _ in range(4):
            sample.requires_grad_(True)
            (slope,) = torch.autograd.grad(energy(sample).sum(), sample)
            sample = (sample - 0.1 * slope + 0.05 * torch.randn_like(sample)).detach()
        loss = energy(x).mean() - energy(sample).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def character_model_with_carried_state():
    torch.manual_seed(5)
    embed, rnn, head = nn.Embedding(20, 8), nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 20)
    params = [*embed.parameters(), *rnn.parameters(), *head.parameters()]
    opt = optim.Adam(params, lr=1e-2)
    text, state = torch.randint(0, 20, (4, 81)), None
    for i in range(0, 80, 10):
        x, y = text[:, i : i + 10], text[:, i + 1 : i + 11]
        if state is not None:
            state = tuple(s.detach() for s in state)
        h, state = rnn(embed(x), state)
        loss = F.cross_entropy(head(h).reshape(-1, 20), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 0.25)
        opt.step()


def gru_that_takes_time_first():
    torch.manual_seed(6)
    rnn, head = nn.GRU(3, 8), nn.Linear(8, 1)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for _ in range(8):
        x = torch.randn(16, 24, 3)
        _, h = rnn(x.transpose(0, 1))
        opt.zero_grad()
        F.mse_loss(head(h[-1]), x.sum((1, 2))[:, None]).backward()
        opt.step()


def packed_sequences_of_growing_length():
    torch.manual_seed(7)
    rnn, head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 2)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for n in range(4, 14):
        x = torch.randn(5, n, 3)
        lengths = torch.tensor([n, n - 1, n - 2, n - 2, 1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        _, (h, _) = rnn(packed)
        opt.zero_grad()
        F.cross_entropy(head(h[-1]), torch.randint(0, 2, (5,))).backward()
        opt.step()


def truncated_backpropagation_by_hand():
    torch.manual_seed(8)
    cell, head = nn.RNNCell(3, 8), nn.Linear(8, 1)
    opt = optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
    h = torch.zeros(4, 8)
    for _ in range(6):
        loss = 0
        for _ in range(5):
            x = torch.randn(4, 3)
            h = cell(x, h)
            loss = loss + F.mse_loss(head(h), x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
        h = h.detach()


def gpt_with_shared_embedding_and_causal_mask():
    torch.manual_seed(9)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(17, 16), nn.Embedding(8, 16)
            self.ln, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.lm_head = nn.Linear(16, 17, bias=False)
            self.wte.weight = self.lm_head.weight
            self.register_buffer("mask", torch.tril(torch.ones(8, 8)))

        def forward(self, x):
            h = self.wte(x) + self.wpe(torch.arange(8))
            q, k, v = self.qkv(self.ln(h)).split(16, -1)
            scores = q @ k.transpose(-2, -1) / 4
            scores = scores.masked_fill(self.mask == 0, float("-inf"))
            h = h + self.out(F.softmax(scores, dim=-1) @ v)
            return self.lm_head(h)

    net = GPT()
    opt = optim.AdamW(net.parameters(), lr=3e-3)
    data = torch.arange(200) % 17
    for _ in range(10):
        at = torch.randint(0, 190, (4,))
        x = torch.stack([data[i : i + 8] for i in at])
        y = torch.stack([data[i + 1 : i + 9] for i in at])
        loss = F.cross_entropy(net(x).view(-1, 17), y.view(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        net(x).argmax(-1)
