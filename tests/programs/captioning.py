"""Image captioning: a CNN encoder, an LSTM decoder over packed captions, beam search."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(13)
V = 15


class Captions(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, 8, 8, generator=g), torch.randint(3, V, (3 + i % 4,), generator=g)


def collate_fn(data):
    data.sort(key=lambda pair: len(pair[1]), reverse=True)
    images, captions = zip(*data)
    images = torch.stack(images, 0)
    lengths = [len(cap) for cap in captions]
    targets = torch.zeros(len(captions), max(lengths)).long()
    for i, cap in enumerate(captions):
        targets[i, : lengths[i]] = cap[: lengths[i]]
    return images, targets, lengths


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.Flatten()
        )
        self.linear, self.bn = nn.Linear(32, 16), nn.BatchNorm1d(16, momentum=0.01)

    def forward(self, x):
        with torch.no_grad():
            f = self.conv(x)
        return self.bn(self.linear(f))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.linear = (
            nn.Embedding(V, 16),
            nn.LSTM(16, 24, batch_first=True),
            nn.Linear(24, V),
        )

    def forward(self, features, captions, lengths):
        e = torch.cat((features.unsqueeze(1), self.embed(captions)), 1)
        hiddens, _ = self.lstm(pack_padded_sequence(e, lengths, batch_first=True))
        return self.linear(hiddens[0])

    def beam(self, f, width=3, steps=4):
        beams = [([], 0.0, None, f.unsqueeze(1))]
        for _ in range(steps):
            new = []
            for ids, score, state, inp in beams:
                h, s = self.lstm(inp, state)
                logp = self.linear(h.squeeze(1)).log_softmax(-1)
                top, idx = logp.topk(width)
                for p, k in zip(top[0], idx[0]):
                    new.append((ids + [k.item()], score + p.item(), s, self.embed(k.view(1, 1))))
            beams = sorted(new, key=lambda b: -b[1])[:width]
        return beams[0][0], round(beams[0][1], 4)


enc, dec = Encoder(), Decoder()
opt = torch.optim.Adam([*dec.parameters(), *enc.linear.parameters(), *enc.bn.parameters()], 1e-2)
crit = nn.CrossEntropyLoss()
for epoch in range(2):
    for images, captions, lengths in DataLoader(Captions(), 8, shuffle=True, collate_fn=collate_fn):
        targets = pack_padded_sequence(captions, lengths, batch_first=True)[0]
        loss = crit(dec(enc(images), captions, lengths), targets)
        dec.zero_grad()
        enc.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, f"{loss.item():.4f} perplexity {loss.exp().item():.4f}")
enc.eval()
print(dec.beam(enc(Captions()[0][0].unsqueeze(0))))
