"""Broken programs: losses given what they do not expect. The line to mend ends in `# WRONG`."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def probabilities_into_cross_entropy():
    torch.manual_seed(0)
    x, y = torch.randn(96, 12), torch.randint(0, 5, (96,))

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(12, 24)
            self.out = nn.Linear(24, 5)

        def forward(self, x):
            x = torch.relu(self.hidden(x))
            return torch.softmax(self.out(x), dim=1)  # WRONG

    model = Classifier()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()


def sigmoid_layer_and_bce_with_logits():
    torch.manual_seed(1)
    x = torch.randn(64, 8)
    y = (x[:, :1] > 0).float()
    model = nn.Sequential(
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, 1),
        nn.Sigmoid(),  # WRONG
    )
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(8):
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        opt.step()


def logits_into_nll():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    loss_fn = nn.NLLLoss()
    opt = optim.Adam(model.parameters())
    for _ in range(8):
        inputs, labels = torch.randn(16, 6), torch.randint(0, 4, (16,))
        outputs = model(inputs)
        loss = loss_fn(outputs, labels)  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def column_against_row():
    torch.manual_seed(3)
    features = torch.randn(40, 5)
    prices = features.sum(1) * 3 + 1
    net = nn.Linear(5, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    for step in range(10):
        predicted = net(features)
        error = ((predicted - prices) ** 2).mean()  # WRONG
        optimizer.zero_grad()
        error.backward()
        optimizer.step()


def softmax_over_the_batch():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(6):
        x, y = torch.randn(32, 10), torch.randint(0, 3, (32,))
        log_p = F.log_softmax(net(x), dim=0)  # WRONG
        loss = F.nll_loss(log_p, y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def relu_before_the_logits():
    torch.manual_seed(5)
    net = nn.Sequential(
        nn.Linear(10, 20), nn.ReLU(),
        nn.Linear(20, 4), nn.ReLU(),  # WRONG
    )
    opt = optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(12):
        x, y = torch.randn(32, 10), torch.randint(0, 4, (32,))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


def kl_div_of_probabilities():
    torch.manual_seed(6)
    teacher, student = nn.Linear(8, 5), nn.Linear(8, 5)
    teacher.requires_grad_(False)
    opt = optim.SGD(student.parameters(), lr=0.1)
    for _ in range(6):
        x = torch.randn(20, 8)
        soft = F.softmax(teacher(x), dim=-1)
        loss = F.kl_div(F.softmax(student(x), dim=-1), soft, reduction="batchmean")  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def all_labels_ignored():
    torch.manual_seed(7)
    net = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    opt = optim.Adam(net.parameters())
    for step in range(4):
        tokens = torch.randint(1, 20, (4, 7))
        labels = tokens.clone()
        labels[:, :] = -100
        logits = net(tokens)
        loss = F.cross_entropy(logits.reshape(-1, 20), labels.reshape(-1))  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()
