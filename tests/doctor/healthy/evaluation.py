"""Healthy programs: data, evaluation, odd modes and odd losses."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split


def _train(model, steps=6, classes=3, n=8):
    opt = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        opt.zero_grad()
        F.cross_entropy(model(torch.randn(16, n)), torch.randint(0, classes, (16,))).backward()
        opt.step()


def monte_carlo_dropout():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    _train(model)
    x = torch.randn(10, 8)
    model.train()
    with torch.no_grad():
        samples = torch.stack([model(x).softmax(1) for _ in range(12)])
    samples.mean(0), samples.std(0)


def monte_carlo_dropout_in_eval_mode():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))
    _train(model)
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()
    with torch.no_grad():
        torch.stack([model(torch.ones(4, 8)) for _ in range(8)]).var(0)


def statistics_recalibrated():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    _train(model)
    model[1].reset_running_stats()
    model.train()
    with torch.no_grad():
        for _ in range(6):
            model(torch.randn(16, 8))
    model.eval()
    with torch.no_grad():
        model(torch.randn(16, 8))


def model_without_modes_never_put_into_eval():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 3))
    for _ in range(3):
        _train(model, 4)
        with torch.no_grad():
            (model(torch.randn(20, 8)).argmax(1) == 0).float().mean().item()


def training_accuracy_from_the_same_outputs():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))
    opt = optim.Adam(model.parameters())
    seen = correct = 0
    running = 0.0
    for _ in range(12):
        x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * 16
        correct += (out.argmax(1) == y).sum()
        seen += 16


def test_set_walked_with_workers():
    torch.manual_seed(5)

    class Squares(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, i):
            return torch.full((8,), i / 24), i % 3

    train, test = random_split(Squares(), [16, 8])
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    opt = optim.Adam(model.parameters())
    for _ in range(2):
        model.train()
        for x, y in DataLoader(train, 4, shuffle=True, num_workers=2):
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        model.eval()
        with torch.inference_mode():
            for x, _ in DataLoader(test, 4):
                model(x)


def streamed_data():
    torch.manual_seed(6)

    class Stream(IterableDataset):
        def __iter__(self):
            for i in range(40):
                yield torch.randn(8), torch.tensor(i % 3)

    model = nn.Linear(8, 3)
    opt = optim.Adam(model.parameters())
    for x, y in DataLoader(Stream(), batch_size=8):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def time_series_in_order():
    torch.manual_seed(7)
    series = torch.sin(torch.arange(220) / 9.0)
    windows = series.unfold(0, 20, 1)
    data = TensorDataset(windows[:-1], windows[1:, -1:])
    model = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in DataLoader(data, batch_size=25, shuffle=False):
            opt.zero_grad()
            F.mse_loss(model(x), y).backward()
            opt.step()


def overfit_one_batch():
    torch.manual_seed(8)
    x, y = torch.randn(4, 8), torch.tensor([0, 1, 2, 1])
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()


def one_sample_at_a_time_with_instance_norm():
    torch.manual_seed(9)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4), nn.ReLU(), nn.Conv2d(4, 3, 3))
    opt = optim.Adam(model.parameters())
    for _ in range(6):
        x = torch.rand(1, 3, 10, 10)
        opt.zero_grad()
        F.l1_loss(model(x), x[..., 2:-2, 2:-2]).backward()
        opt.step()


def broadcast_loss_on_purpose():
    torch.manual_seed(10)
    # The quantile loss: one prediction a quantile, one target a row.
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    net = nn.Linear(5, 3)
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(8):
        x = torch.randn(16, 5)
        error = x.sum(1, keepdim=True) - net(x)
        loss = torch.maximum(quantiles * error, (quantiles - 1) * error).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def class_weights_and_sample_weights():
    torch.manual_seed(11)
    net = nn.Linear(5, 3)
    opt = optim.SGD(net.parameters(), lr=0.1)
    weight = torch.tensor([1.0, 2.0, 0.5])
    for _ in range(8):
        x, y, w = torch.randn(16, 5), torch.randint(0, 3, (16,)), torch.rand(16)
        loss = (F.cross_entropy(net(x), y, weight=weight, reduction="none") * w).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def sparse_labels_in_a_segmentation():
    torch.manual_seed(12)
    net = nn.Conv2d(3, 4, 3, padding=1)
    opt = optim.Adam(net.parameters())
    for _ in range(6):
        y = torch.full((2, 8, 8), 255)
        y[:, 3, 3] = torch.randint(0, 4, (2,))
        opt.zero_grad()
        F.cross_entropy(net(torch.rand(2, 3, 8, 8)), y, ignore_index=255).backward()
        opt.step()


def attention_over_the_first_axis():
    torch.manual_seed(13)
    score, head = nn.Linear(6, 1), nn.Linear(6, 2)
    opt = optim.Adam([*score.parameters(), *head.parameters()])
    for _ in range(6):
        steps = torch.randn(9, 4, 6)
        weights = F.softmax(score(steps), dim=0)
        pooled = (weights * steps).sum(0)
        opt.zero_grad()
        F.cross_entropy(head(pooled), torch.randint(0, 2, (4,))).backward()
        opt.step()


def mixture_of_experts():
    torch.manual_seed(14)
    gate, experts = nn.Linear(6, 4), nn.ModuleList([nn.Linear(6, 2) for _ in range(4)])
    opt = optim.Adam([*gate.parameters(), *experts.parameters()])
    for _ in range(10):
        x = torch.randn(3, 6)
        p = F.softmax(gate(x), dim=1)
        top, index = p.topk(1, dim=1)
        y = torch.stack([experts[int(i)](row) for i, row in zip(index[:, 0], x, strict=True)])
        opt.zero_grad()
        F.cross_entropy(y * top, torch.randint(0, 2, (3,))).backward()
        opt.step()


def stochastic_depth():
    torch.manual_seed(15)
    blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
    head = nn.Linear(8, 3)
    opt = optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.1)
    for _ in range(12):
        h = torch.randn(8, 8)
        for block in blocks:
            if torch.rand(()) < 0.5:
                h = h + torch.tanh(block(h))
        opt.zero_grad()
        F.cross_entropy(head(h), torch.randint(0, 3, (8,))).backward()
        opt.step()


def auxiliary_head_used_only_in_training():
    torch.manual_seed(16)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.main, self.aux = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

        def forward(self, x):
            h = F.relu(self.body(x))
            return (self.main(h), self.aux(h)) if self.training else self.main(h)

    net = Net()
    opt = optim.Adam(net.parameters())
    for _ in range(4):
        net.train()
        for _ in range(3):
            main, aux = net(torch.randn(8, 8))
            y = torch.randint(0, 3, (8,))
            opt.zero_grad()
            (F.cross_entropy(main, y) + 0.3 * F.cross_entropy(aux, y)).backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            net(torch.randn(8, 8))


def gradient_of_the_input_as_the_answer():
    torch.manual_seed(17)
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(6):
        x = torch.rand(16, 2, requires_grad=True)
        u = net(x)
        (du,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
        (duu,) = torch.autograd.grad(du[:, :1], x, torch.ones(16, 1), create_graph=True)
        loss = ((duu[:, :1] - du[:, 1:]) ** 2).mean() + (u**2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def focal_loss_from_probabilities():
    torch.manual_seed(18)
    net = nn.Linear(5, 1)
    opt = optim.Adam(net.parameters())
    for _ in range(8):
        x = torch.randn(16, 5)
        y = (x[:, :1] > 1).float()
        p = torch.sigmoid(net(x))
        ce = F.binary_cross_entropy(p, y, reduction="none")
        loss = (ce * (1 - (p * y + (1 - p) * (1 - y))) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def outputs_bounded_on_purpose():
    torch.manual_seed(19)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
    opt = optim.Adam(net.parameters())
    for _ in range(8):
        x = torch.randn(16, 5)
        opt.zero_grad()
        F.mse_loss(net(x), torch.sigmoid(x.sum(1, keepdim=True))).backward()
        opt.step()


def heads_of_several_tasks_in_turn():
    torch.manual_seed(20)
    body = nn.Linear(6, 8)
    heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 5), "c": nn.Linear(8, 1)})
    opt = optim.Adam([*body.parameters(), *heads.parameters()])
    for step in range(12):
        task = "abc"[step % 3]
        out = heads[task](torch.relu(body(torch.randn(8, 6))))
        loss = (F.mse_loss(out, torch.randn(8, 1)) if task == "c"
                else F.cross_entropy(out, torch.randint(0, out.shape[1], (8,))))
        opt.zero_grad()
        loss.backward()
        opt.step()


def clustering_with_constants():
    torch.manual_seed(21)
    x = torch.cat([torch.randn(20, 2), torch.randn(20, 2) + 4])
    centres = x[torch.randperm(40)[:2]].clone()
    for _ in range(5):
        nearest = torch.cdist(x, centres).argmin(1)
        centres = torch.stack([x[nearest == k].mean(0) for k in range(2)])


def dropout_layer_right_before_the_output():
    torch.manual_seed(22)
    _train(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)))


def binary_task_with_cross_entropy_and_rare_class():
    torch.manual_seed(23)
    net = nn.Linear(5, 2)
    opt = optim.SGD(net.parameters(), lr=0.1)
    for step in range(12):
        y = torch.zeros(16, dtype=torch.long)
        if step % 5 == 0:
            y[3] = 1
        opt.zero_grad()
        F.cross_entropy(net(torch.randn(16, 5)), y).backward()
        opt.step()
