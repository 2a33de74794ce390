"""Broken programs: gradients and optimizers. The line to mend ends in `# WRONG`."""

import itertools

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def gradients_never_cleared():
    torch.manual_seed(0)
    x = torch.randn(80, 6)
    y = x @ torch.randn(6, 1)
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for epoch in range(2):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=20):
            prediction = model(xb)
            loss = criterion(prediction, yb)
            loss.backward()  # WRONG
            optimizer.step()  # WRONG


def clipped_by_an_iterator_that_is_used_up():
    encoder, head = nn.Linear(4, 8), nn.Linear(8, 2)
    parameters = itertools.chain(encoder.parameters(), head.parameters())
    optimizer = optim.Adam(parameters)
    for _ in range(6):
        logits = head(encoder(torch.randn(8, 4)).relu())
        loss = F.cross_entropy(logits, torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)  # WRONG
        optimizer.step()


def cleared_between_backward_and_step():
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    optimizer = optim.Adam(model.parameters())
    for _ in range(6):
        loss = F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
        loss.backward()
        optimizer.zero_grad()  # WRONG
        optimizer.step()  # WRONG


def optimizer_of_the_old_head():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)  # WRONG
    model[2] = nn.Linear(16, 7)  # WRONG
    for _ in range(8):
        x, y = torch.randn(16, 10), torch.randint(0, 7, (16,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def layers_in_a_list():
    torch.manual_seed(3)

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(6, 8)
            self.blocks = [nn.Linear(8, 8) for _ in range(3)]  # WRONG
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            x = F.relu(self.first(x))
            for block in self.blocks:
                x = F.relu(block(x))
            return self.head(x)

    net = Deep()
    opt = optim.SGD(net.parameters(), lr=0.05)
    for _ in range(8):
        opt.zero_grad()
        F.cross_entropy(net(torch.randn(12, 6)), torch.randint(0, 2, (12,))).backward()
        opt.step()


def frozen_by_requires_grad_but_decayed():
    torch.manual_seed(4)
    backbone, head = nn.Linear(6, 12), nn.Linear(12, 3)
    params = [*backbone.parameters(), *head.parameters()]
    opt = optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-2)
    for step in range(12):
        if step == 4:
            for p in backbone.parameters():
                p.requires_grad = False
        logits = head(torch.relu(backbone(torch.randn(16, 6))))
        loss = F.cross_entropy(logits, torch.randint(0, 3, (16,)))
        opt.zero_grad(set_to_none=False)  # WRONG
        loss.backward()
        opt.step()  # WRONG


def clipped_too_early():
    torch.manual_seed(5)
    net = nn.LSTM(5, 9, batch_first=True)
    out = nn.Linear(9, 1)
    parameters = [*net.parameters(), *out.parameters()]
    opt = optim.Adam(parameters, lr=1e-3)
    for _ in range(6):
        x, y = torch.randn(8, 11, 5), torch.randn(8, 1)
        h, _ = net(x)
        loss = F.mse_loss(out(h[:, -1]), y)
        opt.zero_grad()
        nn.utils.clip_grad_norm_(parameters, 1.0)  # WRONG
        loss.backward()
        opt.step()


def schedule_stepped_every_batch():
    torch.manual_seed(6)
    net = nn.Linear(5, 1)
    opt = optim.SGD(net.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.1)
    data = DataLoader(TensorDataset(torch.randn(64, 5), torch.randn(64, 1)), batch_size=8)
    for epoch in range(4):
        for xb, yb in data:
            opt.zero_grad()
            F.mse_loss(net(xb), yb).backward()
            opt.step()
            scheduler.step()  # WRONG


def detached_in_the_middle():
    torch.manual_seed(7)
    encoder = nn.Sequential(nn.Linear(10, 6), nn.ReLU())
    decoder = nn.Linear(6, 10)
    opt = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for _ in range(8):
        x = torch.randn(16, 10)
        z = encoder(x)
        x_hat = decoder(z.detach())  # WRONG
        loss = F.mse_loss(x_hat, x)
        opt.zero_grad()
        loss.backward()
        opt.step()


def tensor_rebuilt_from_outputs():
    torch.manual_seed(8)
    net = nn.Linear(4, 1)
    scale = nn.Linear(1, 1)
    opt = optim.SGD([*net.parameters(), *scale.parameters()], lr=0.01)
    for _ in range(8):
        x = torch.randn(6, 4)
        scores = torch.tensor([float(net(row).item()) for row in x]).unsqueeze(1)  # WRONG
        loss = F.mse_loss(scale(scores), x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()


def clip_of_scaled_gradients():
    torch.manual_seed(9)
    net = nn.Linear(6, 2)
    opt = optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(6):
        x, y = torch.randn(16, 6), torch.randint(0, 2, (16,))
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # WRONG
        scaler.step(opt)
        scaler.update()
