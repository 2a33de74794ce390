"""nn.Transformer with masks, positional encoding, label smoothing, greedy decoding."""

import math
import warnings

import torch
import torch.nn as nn

warnings.filterwarnings("ignore")
torch.manual_seed(25)
V, D, PAD, BOS, EOS = 16, 32, 0, 1, 2


class PositionalEncoding(nn.Module):
    def __init__(self, d, dropout=0.1, maxlen=50):
        super().__init__()
        den = torch.exp(-torch.arange(0, d, 2) * math.log(10000) / d)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pe = torch.zeros((maxlen, d))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * den), torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", pe.unsqueeze(-2))

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0), :])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Transformer(D, 4, 2, 2, 64, dropout=0.1, norm_first=True)
        self.out, self.src, self.tgt, self.pos = (
            nn.Linear(D, V),
            nn.Embedding(V, D),
            nn.Embedding(V, D),
            PositionalEncoding(D),
        )

    def forward(self, src, tgt, tgt_mask, src_pad, tgt_pad):
        s, t = self.pos(self.src(src) * math.sqrt(D)), self.pos(self.tgt(tgt) * math.sqrt(D))
        return self.out(self.t(s, t, None, tgt_mask, None, src_pad, tgt_pad, src_pad))


model = Model()
for p in model.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: D**-0.5 * min((s + 1) ** -0.5, (s + 1) * 8**-1.5)
)
crit = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
for step in range(6):
    src = torch.randint(3, V, (7, 8))
    src[5:, ::2] = PAD
    tgt = torch.cat([torch.full((1, 8), BOS), src.flip(0)], 0)
    inp, target = tgt[:-1], tgt[1:]
    mask = nn.Transformer.generate_square_subsequent_mask(inp.size(0))
    logits = model(src, inp, mask, (src == PAD).T, None)
    loss = crit(logits.reshape(-1, V), target.reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    print(step, f"{loss.item():.4f} {sched.get_last_lr()[0]:.6f}")
model.eval()
with torch.no_grad():
    enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, 64, batch_first=True), 2).eval()
    y = enc(
        torch.randn(2, 5, D),
        src_key_padding_mask=torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    )
    print(y.shape, y[0].mean().item() < 1e-5)
    memory = model.t.encoder(model.pos(model.src(src[:, :1]) * math.sqrt(D)))
    ys = torch.ones(1, 1).fill_(BOS).type(torch.long)
    for _ in range(6):
        out = model.t.decoder(
            model.pos(model.tgt(ys) * math.sqrt(D)),
            memory,
            nn.Transformer.generate_square_subsequent_mask(ys.size(0)),
        )
        ys = torch.cat([ys, model.out(out[-1]).argmax(-1, keepdim=True)], 0)
print(ys.T.tolist())
mha = nn.MultiheadAttention(D, 4, batch_first=True)
o, w = mha(
    torch.ones(1, 3, D),
    torch.ones(1, 3, D),
    torch.ones(1, 3, D),
    need_weights=True,
    average_attn_weights=False,
)
print(o.shape, w.shape, w.sum().item())
