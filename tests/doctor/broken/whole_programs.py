"""Broken programs with functions of their own. The line to mend ends in `# WRONG`."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, Dataset, TensorDataset


class _Points(Dataset):
    def __init__(self, n, seed, classes=3):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, classes, (n,), generator=g)
        self.x = torch.randn(n, 6, generator=g) + self.y[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class _Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.fc1 = nn.Linear(6, 16)
        self.bn = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.4)
        self.fc2 = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))


def evaluate_function_without_eval():
    def train_epoch(model, loader, optimizer):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    def evaluate(model, loader):
        total, loss = 0, 0.0
        with torch.no_grad():
            for x, y in loader:
                out = model(x)  # WRONG
                loss += F.cross_entropy(out, y, reduction="sum").item()
                total += len(y)
        return loss / total

    model = _Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    train, test = DataLoader(_Points(64, 0), 16, shuffle=True), DataLoader(_Points(32, 1), 32)
    for _ in range(3):
        train_epoch(model, train, optimizer)
        evaluate(model, test)


def accuracy_without_no_grad_or_eval():
    model = _Net()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    train, test = DataLoader(_Points(64, 0), 16, shuffle=True), DataLoader(_Points(48, 1), 16)
    for _ in range(3):
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        right = 0
        for x, y in test:
            right += int((model(x).argmax(1) == y).sum())  # WRONG


def regression_with_flat_targets():
    class Ages(Dataset):
        def __len__(self):
            return 48

        def __getitem__(self, i):
            x = torch.full((4,), i / 48)
            return x, x.sum()

    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    criterion = nn.MSELoss()
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(2):
        for x, age in DataLoader(Ages(), 12, shuffle=True):
            opt.zero_grad()
            loss = criterion(net(x), age)  # WRONG
            loss.backward()
            opt.step()


def teacher_that_is_its_student():
    student = _Net()
    teacher = student  # WRONG
    opt = optim.Adam(student.parameters())
    for step in range(16):
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        opt.zero_grad()
        F.cross_entropy(student(x), y).backward()
        opt.step()
        if step % 2 == 1:
            teacher.load_state_dict(student.state_dict())


def copy_of_the_model_is_trained():
    base = _Net()
    optimizer = optim.Adam(base.parameters(), lr=1e-3)  # WRONG
    model = copy.deepcopy(base)
    for x, y in DataLoader(_Points(96, 0), 12, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def sum_of_losses_kept():
    net = _Net()
    opt = optim.SGD(net.parameters(), lr=0.01)
    epoch_loss = 0
    for x, y in DataLoader(_Points(160, 0), 8):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        epoch_loss = epoch_loss + loss * len(x)  # WRONG
    return epoch_loss / 160


def two_orders():
    x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
    net = nn.Linear(6, 3)
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        x_shuffled = x[torch.randperm(len(x))]
        y_shuffled = y[torch.randperm(len(y))]  # WRONG
        for i in range(0, 64, 16):
            opt.zero_grad()
            F.cross_entropy(net(x_shuffled[i : i + 16]), y_shuffled[i : i + 16]).backward()
            opt.step()


def frozen_body_with_living_statistics():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten())
    for p in body.parameters():
        p.requires_grad = False
    head = nn.Linear(4, 2)
    opt = optim.Adam(head.parameters())
    for _ in range(6):
        features = body(torch.rand(8, 3, 8, 8))  # WRONG
        opt.zero_grad()
        F.cross_entropy(head(features), torch.randint(0, 2, (8,))).backward()
        opt.step()


def step_without_parentheses():
    net = _Net()
    opt = optim.Adam(net.parameters())
    for x, y in DataLoader(_Points(48, 0), 16):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step  # WRONG


def single_output_with_cross_entropy():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softmax(dim=1))  # WRONG
    opt = optim.Adam(net.parameters())
    for _ in range(4):
        x, y = torch.randn(12, 6), torch.randint(0, 2, (12, 1)).float()
        opt.zero_grad()
        F.binary_cross_entropy(net(x), y).backward()
        opt.step()


def recurrent_state_not_detached():
    rnn, out = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 1)
    opt = optim.SGD([*rnn.parameters(), *out.parameters()], lr=0.0)
    state = None
    for _ in range(10):
        x, y = torch.randn(4, 5, 3), torch.randn(4, 1)
        h, state = rnn(x, state)
        loss = F.mse_loss(out(h[:, -1]), y)
        opt.zero_grad()
        loss.backward(retain_graph=True)  # WRONG


def logits_thresholded_at_one_half():
    net = nn.Linear(6, 1)
    opt = optim.Adam(net.parameters())
    for _ in range(4):
        for x, y in DataLoader(_Points(32, 0, 2), 16):
            opt.zero_grad()
            F.binary_cross_entropy_with_logits(net(x).squeeze(1), y.float()).backward()
            opt.step()
    with torch.no_grad():
        test = _Points(32, 1, 2)
        prediction = (net(test.x).squeeze(1) > 0.5).long()  # WRONG
        (prediction == test.y).float().mean()


def adam_made_in_the_epoch_loop():
    net = _Net()
    data = DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(0, 3, (32,))), 8)
    for _ in range(7):
        optimizer = optim.Adam(net.parameters(), lr=1e-3)  # WRONG
        for x, y in data:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()


def saved_by_sharing_a_dict_of_tensors():
    net = nn.Linear(4, 1)
    opt = optim.SGD(net.parameters(), lr=0.1)
    best, kept = float("inf"), {}
    x, y = torch.randn(32, 4), torch.randn(32, 1)
    for _ in range(6):
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        if loss.item() < best:
            best = loss.item()
            kept = {k: v for k, v in net.state_dict().items()}  # WRONG
    net.load_state_dict(kept)


def square_root_at_zero():
    net = nn.Linear(4, 4)
    opt = optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(8, 4)
    for _ in range(3):
        z = net(x)
        apart = ((z[:, None] - z[None]) ** 2).sum(-1)
        distances = torch.sqrt(apart)  # WRONG
        loss = distances.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def hidden_weights_as_plain_tensors():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.scale = torch.ones(4, requires_grad=True)  # WRONG

        def forward(self, x):
            return self.inner(x) * self.scale

    net = Scaled()
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        opt.zero_grad()
        F.mse_loss(net(torch.randn(8, 4)), torch.randn(8, 4)).backward()
        opt.step()
