"""Losses by hand: focal, dice, IoU, NMS, CTC, and those of nn.functional."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(26)


def focal(logits, t, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, t, reduction="none")
    p = logits.sigmoid()
    pt = p * t + (1 - p) * (1 - t)
    return ((alpha * t + (1 - alpha) * (1 - t)) * (1 - pt) ** gamma * ce).mean()


def dice(logits, t):
    p = logits.softmax(1)
    onehot = F.one_hot(t, p.size(1)).permute(0, 3, 1, 2).float()
    return 1 - (2 * (p * onehot).sum((2, 3)) / (p + onehot).sum((2, 3)).clamp_min(1e-6)).mean()


def iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def nms(boxes, scores, thr=0.5):
    keep, order = [], scores.argsort(descending=True)
    while order.numel():
        i = order[0]
        keep.append(i.item())
        order = order[1:][iou(boxes[i : i + 1], boxes[order[1:]])[0] <= thr]
    return keep


net = nn.Conv2d(3, 4, 3, padding=1)
opt = torch.optim.SGD(net.parameters(), 0.5)
x, t = torch.randn(2, 3, 6, 6), torch.randint(0, 4, (2, 6, 6))
for i in range(4):
    out = net(x)
    w = torch.tensor([1.0, 2.0, 0.5, 1.0])
    loss = F.cross_entropy(out, t, weight=w) + dice(out, t) + focal(out[:, 0], (t == 0).float())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, f"{loss.item():.5f}")
boxes = torch.rand(12, 4) * 5
boxes[:, 2:] += boxes[:, :2] + 0.5
scores = torch.rand(12)
print(nms(boxes, scores), iou(boxes[:2], boxes[2:4]))
lp = torch.randn(12, 2, 6, requires_grad=True)
ctc = nn.CTCLoss(zero_infinity=True)(
    lp.log_softmax(2), torch.randint(1, 6, (2, 4)), torch.tensor([12, 10]), torch.tensor([4, 3])
)
ctc.backward()
print(ctc.item(), lp.grad.abs().sum().item())
a, b = torch.randn(6, 4, requires_grad=True), torch.randint(0, 4, (6,))
for name, l in {
    "nll": F.nll_loss(a.log_softmax(1), b),
    "multi": F.multi_margin_loss(a, b),
    "kl": F.kl_div(a.log_softmax(1), torch.full((6, 4), 0.25), reduction="batchmean"),
    "poisson": F.poisson_nll_loss(a, a.detach().abs()),
    "gauss": F.gaussian_nll_loss(a, torch.zeros(6, 4), torch.ones(6, 4)),
    "soft": F.soft_margin_loss(a, torch.ones(6, 4)),
    "rank": F.margin_ranking_loss(a[:, 0], a[:, 1], torch.ones(6)),
    "hinge": F.hinge_embedding_loss(a, torch.ones(6, 4).fill_(-1)),
}.items():
    print(name, f"{l.item():.5f}", f"{torch.autograd.grad(l, a)[0].abs().sum().item():.5f}")
