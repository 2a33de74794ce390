"""Healthy programs: contrastive, Siamese and metric learning, distillation, self-supervision."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def _encoder():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 8))


def simclr():
    encoder = _encoder()
    opt = optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(8):
        x = torch.randn(12, 10)
        z = F.normalize(encoder(torch.cat([x + 0.1 * torch.randn_like(x), x])), dim=1)
        similarity = z @ z.T / 0.5
        similarity.fill_diagonal_(float("-inf"))
        labels = (torch.arange(24) + 12) % 24
        loss = F.cross_entropy(similarity, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


def clip_in_both_directions():
    torch.manual_seed(1)
    image, text = nn.Linear(10, 6), nn.Linear(7, 6)
    scale = nn.Parameter(torch.tensor(2.0))
    opt = optim.AdamW([*image.parameters(), *text.parameters(), scale], lr=1e-3)
    for _ in range(8):
        a = F.normalize(image(torch.randn(9, 10)), dim=-1)
        b = F.normalize(text(torch.randn(9, 7)), dim=-1)
        logits = scale.exp() * a @ b.t()
        labels = torch.arange(9)
        loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


def nt_xent_by_log_softmax_over_both_dims():
    encoder = _encoder()
    opt = optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(8):
        x = torch.randn(12, 10)
        logits = encoder(x) @ encoder(x + 0.1).T
        rows = F.log_softmax(logits, dim=1).diagonal()
        columns = F.log_softmax(logits, dim=0).diagonal()
        loss = -(rows + columns).mean() / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


def siamese_with_contrastive_loss():
    encoder = _encoder()
    opt = optim.SGD(encoder.parameters(), lr=0.01)
    for _ in range(8):
        a, b, same = torch.randn(12, 10), torch.randn(12, 10), torch.randint(0, 2, (12,)).float()
        distance = F.pairwise_distance(encoder(a), encoder(b))
        loss = (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def triplets_that_soon_give_no_loss():
    encoder = _encoder()
    opt = optim.Adam(encoder.parameters(), lr=1e-2)
    criterion = nn.TripletMarginLoss(margin=0.05)
    anchor = torch.randn(6, 10)
    for _ in range(30):
        loss = criterion(encoder(anchor), encoder(anchor + 0.01), encoder(anchor + 5))
        opt.zero_grad()
        loss.backward()
        opt.step()


def pairwise_distances_of_all():
    torch.manual_seed(2)
    scorer = nn.Linear(5, 1)
    opt = optim.Adam(scorer.parameters(), lr=1e-2)
    for _ in range(8):
        x, relevance = torch.randn(10, 5), torch.rand(10)
        s = scorer(x).squeeze(1)
        better = (relevance.unsqueeze(1) > relevance.unsqueeze(0)).float()
        loss = (F.softplus(-(s.unsqueeze(1) - s.unsqueeze(0))) * better).sum() / better.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def prototypes_against_all_queries():
    encoder = _encoder()
    opt = optim.Adam(encoder.parameters(), lr=1e-3)
    for _ in range(8):
        support, query = torch.randn(3, 5, 10), torch.randn(12, 10)
        prototypes = encoder(support.view(15, 10)).view(3, 5, 8).mean(1)
        squared = ((encoder(query)[:, None] - prototypes[None]) ** 2).sum(-1)
        loss = F.cross_entropy(-squared, torch.arange(3).repeat_interleave(4))
        opt.zero_grad()
        loss.backward()
        opt.step()


def byol_with_a_moving_teacher():
    online, predictor = _encoder(), nn.Linear(8, 8)
    teacher = copy.deepcopy(online)
    for p in teacher.parameters():
        p.requires_grad = False
    opt = optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)
    for _ in range(10):
        x = torch.randn(16, 10)
        p = F.normalize(predictor(online(x + 0.1 * torch.randn_like(x))), dim=-1)
        with torch.no_grad():
            z = F.normalize(teacher(x), dim=-1)
        loss = 2 - 2 * (p * z).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        for mine, theirs in zip(online.parameters(), teacher.parameters(), strict=True):
            theirs.data = 0.99 * theirs.data + 0.01 * mine.data


def simsiam_with_stop_gradient():
    encoder, predictor = _encoder(), nn.Linear(8, 8)
    opt = optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05)
    for _ in range(8):
        x = torch.randn(16, 10)
        z1, z2 = encoder(x + 0.1), encoder(x - 0.1)
        p1, p2 = predictor(z1), predictor(z2)
        loss = -(F.cosine_similarity(p1, z2.detach()).mean()
                 + F.cosine_similarity(p2, z1.detach()).mean()) / 2
        opt.zero_grad()
        loss.backward()
        opt.step()


def distillation():
    torch.manual_seed(3)
    teacher, student = nn.Linear(10, 4).eval(), nn.Linear(10, 4)
    opt = optim.Adam(student.parameters(), lr=1e-3)
    for _ in range(8):
        x, y = torch.randn(16, 10), torch.randint(0, 4, (16,))
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 3, dim=1)
        logits = student(x)
        kd = F.kl_div(F.log_softmax(logits / 3, dim=1), soft, reduction="batchmean") * 9
        loss = 0.5 * kd + 0.5 * F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def soft_labels_with_mixup():
    net = _encoder()
    opt = optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(8):
        x, y = torch.randn(16, 10), F.one_hot(torch.randint(0, 8, (16,)), 8).float()
        lam, order = 0.3, torch.randperm(16)
        x, y = lam * x + (1 - lam) * x[order], lam * y + (1 - lam) * y[order]
        loss = F.cross_entropy(net(x), y, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()


def masked_language_model_with_tied_weights():
    torch.manual_seed(4)

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(30, 16, padding_idx=0)
            self.positions = nn.Embedding(12, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
            self.encoder = nn.TransformerEncoder(layer, 1)
            self.head = nn.Linear(16, 30, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x):
            h = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
            return self.head(self.encoder(h, src_key_padding_mask=x == 0))

    net = Bert()
    opt = optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(6):
        x = torch.randint(2, 30, (6, 12))
        x[:, 9:] = 0
        labels = x.clone()
        chosen = (torch.rand(x.shape) < 0.15) & (x != 0)
        chosen[:, 0] = True
        labels[~chosen] = -100
        x[chosen] = 1
        loss = F.cross_entropy(net(x).transpose(1, 2), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


def masked_autoencoder():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 10))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(8):
        x = torch.randn(16, 10)
        mask = (torch.rand(16, 10) < 0.5).float()
        error = (net(x * (1 - mask)) - x) ** 2
        loss = (error * mask).sum() / mask.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
