"""Sequence to sequence with Bahdanau attention, packed sequences and teacher forcing."""

import random

import torch
import torch.nn as nn
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

random.seed(0)
torch.manual_seed(4)
V, H, PAD, SOS, EOS = 20, 24, 0, 1, 2


def batch(n=8):
    src = [torch.randint(3, V, (random.randint(3, 7),)) for _ in range(n)]
    tgt = [torch.cat([s.flip(0), torch.tensor([EOS])]) for s in src]
    lengths = torch.tensor([len(s) for s in src])
    return pad_sequence(src, batch_first=True), lengths, pad_sequence(tgt, batch_first=True)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, H, padding_idx=PAD)
        self.gru = nn.GRU(H, H, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * H, H)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths, batch_first=True, enforce_sorted=False)
        out, h = self.gru(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.fc(out), torch.tanh(self.fc(torch.cat([h[0], h[1]], 1)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, H)
        self.Wa, self.Ua, self.Va = nn.Linear(H, H), nn.Linear(H, H), nn.Linear(H, 1)
        self.cell = nn.GRUCell(2 * H, H)
        self.out = nn.Linear(H, V)

    def forward(self, tok, h, enc, mask):
        scores = self.Va(torch.tanh(self.Wa(h).unsqueeze(1) + self.Ua(enc))).squeeze(-1)
        w = scores.masked_fill(~mask, -1e9).softmax(-1)
        ctx = torch.bmm(w.unsqueeze(1), enc).squeeze(1)
        h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
        return self.out(h), h, w


enc, dec = Encoder(), Decoder()
opt = optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=5e-3)
crit = nn.NLLLoss(ignore_index=PAD)
for step in range(8):
    src, lengths, tgt = batch()
    e, h = enc(src, lengths)
    mask = torch.arange(src.size(1))[None] < lengths[:, None]
    tok, loss = torch.full((len(src),), SOS), 0
    for t in range(tgt.size(1)):
        logits, h, w = dec(tok, h, e, mask)
        loss += crit(logits.log_softmax(-1), tgt[:, t])
        tok = tgt[:, t] if random.random() < 0.5 else logits.argmax(-1).detach()
    loss = loss / tgt.size(1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.4f}", tuple(w.shape))
