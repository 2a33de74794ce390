"""Graph convolution and attention by hand: index_add, scatter_reduce, segment softmax."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(8)
N, E = 30, 120
edge = torch.randint(0, N, (2, E))
edge = torch.cat([edge, edge.flip(0), torch.arange(N).repeat(2, 1)], 1)
x, y = torch.randn(N, 8), torch.randint(0, 3, (N,))


class GCN(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x, edge):
        src, dst = edge
        deg = torch.zeros(len(x)).index_add_(0, dst, torch.ones(len(dst)))
        norm = deg.pow(-0.5)[src] * deg.pow(-0.5)[dst]
        out = torch.zeros(len(x), self.lin.out_features)
        return out.index_add(0, dst, self.lin(x)[src] * norm[:, None]) + self.bias


class GAT(nn.Module):
    def __init__(self, i, o, heads=2):
        super().__init__()
        self.W = nn.Parameter(torch.empty(heads, i, o))
        self.a = nn.Parameter(torch.empty(2, heads, o))
        nn.init.xavier_uniform_(self.W)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, edge):
        src, dst = edge
        h = torch.einsum("ni,hio->nho", x, self.W)
        e = F.leaky_relu((h * self.a[0]).sum(-1)[src] + (h * self.a[1]).sum(-1)[dst], 0.2)
        top = torch.full((len(x), e.size(1)), -1e9).scatter_reduce(
            0, dst[:, None].expand_as(e), e, "amax", include_self=True
        )
        w = (e - top[dst]).exp()
        total = torch.zeros(len(x), e.size(1)).scatter_add(0, dst[:, None].expand_as(w), w)
        w = F.dropout(w / total[dst], 0.1, self.training)
        return torch.zeros_like(h).index_add(0, dst, h[src] * w[..., None]).mean(1)


c1, c2 = GCN(8, 16), GAT(16, 3)
params = [*c1.parameters(), *c2.parameters()]
opt = torch.optim.Adam(params, lr=0.02, weight_decay=5e-4)
train = torch.zeros(N, dtype=torch.bool)
train[torch.randperm(N)[:20]] = True
for epoch in range(10):
    out = c2(F.relu(c1(x, edge)), edge)
    loss = F.cross_entropy(out[train], y[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 3 == 0:
        acc = (out.argmax(1)[~train] == y[~train]).float().mean()
        print(epoch, f"{loss.item():.5f} {acc.item():.4f}")
