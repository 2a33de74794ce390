"""Broken programs: modes, and the state of modules. The line to mend ends in `# WRONG`."""

import copy

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def validated_in_training_mode():
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,))), 16)
    test = DataLoader(TensorDataset(torch.randn(32, 8), torch.randint(0, 3, (32,))), 16)
    model = nn.Sequential(nn.Linear(8, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.5),
                          nn.Linear(20, 3))
    opt = optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in train:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        correct = 0
        with torch.no_grad():
            for x, y in test:
                correct += (model(x).argmax(1) == y).sum().item()  # WRONG


def never_back_to_training():
    torch.manual_seed(1)
    train = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), 16)
    held_out = torch.randn(20, 8), torch.randn(20, 1)
    model = nn.Sequential(nn.Linear(8, 20), nn.Dropout(0.3), nn.ReLU(), nn.Linear(20, 1))
    opt = optim.Adam(model.parameters())
    model.train()
    for epoch in range(4):
        for x, y in train:
            opt.zero_grad()
            F.mse_loss(model(x), y).backward()
            opt.step()
        model.eval()  # WRONG
        with torch.no_grad():
            print("validation", F.mse_loss(model(held_out[0]), held_out[1]).item())


def functional_dropout_stays_on():
    torch.manual_seed(2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 2)

        def forward(self, x):
            return self.b(F.dropout(F.relu(self.a(x)), 0.5))  # WRONG

    net = Net()
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        opt.zero_grad()
        F.cross_entropy(net(torch.randn(16, 6)), torch.randint(0, 2, (16,))).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for _ in range(2):
            net(torch.randn(16, 6)).argmax(1)


def best_weights_are_an_alias():
    torch.manual_seed(3)
    x, y = torch.randn(50, 4), torch.randn(50, 1)
    model = nn.Linear(4, 1)
    opt = optim.SGD(model.parameters(), lr=0.05)
    best, best_state = float("inf"), None
    for epoch in range(8):
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        if loss.item() < best:
            best, best_state = loss.item(), model.state_dict()  # WRONG
    model.load_state_dict(best_state)  # WRONG


def best_weights_shallowly_copied():
    torch.manual_seed(4)
    x, y = torch.randn(50, 4), torch.randn(50, 1)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = optim.Adam(model.parameters(), lr=0.05)
    best = float("inf")
    for epoch in range(8):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if loss.item() < best:
            best = loss.item()
            best_state = copy.copy(model.state_dict())  # WRONG
    model.load_state_dict(best_state)  # WRONG


def losses_keep_their_graphs():
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 1))
    opt = optim.Adam(net.parameters())
    history = []
    total = 0.0
    for _ in range(40):
        x, y = torch.randn(8, 5), torch.randn(8, 1)
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss  # WRONG
        history.append(loss)  # WRONG


def evaluation_builds_graphs():
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(5, 10), nn.Dropout(0.1), nn.Linear(10, 2))
    opt = optim.Adam(net.parameters())
    predictions = []
    for _ in range(3):
        opt.zero_grad()
        F.cross_entropy(net(torch.randn(8, 5)), torch.randint(0, 2, (8,))).backward()
        opt.step()
    net.eval()
    for _ in range(20):
        predictions.append(net(torch.randn(8, 5)))  # WRONG


def batch_second_for_an_lstm():
    torch.manual_seed(7)
    x, y = torch.randn(96, 20, 3), torch.randint(0, 2, (96,))

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 8)  # WRONG
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            out, _ = self.lstm(x)  # WRONG
            return self.head(out[:, -1])

    net = Tagger()
    opt = optim.Adam(net.parameters())
    for epoch in range(2):
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()


def view_where_permute_was_meant():
    torch.manual_seed(8)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(4, 2))
    opt = optim.Adam(net.parameters())
    images = torch.rand(24, 12, 10, 3)
    labels = torch.randint(0, 2, (24,))
    for _ in range(4):
        x = images.view(24, 3, 12, 10)  # WRONG
        opt.zero_grad()
        F.cross_entropy(net(x), labels).backward()
        opt.step()


def checkpoint_with_the_wrong_prefix():
    torch.manual_seed(9)
    wrapped = nn.Sequential()
    wrapped.add_module("module", nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)))
    saved = {k: v.clone() for k, v in wrapped.state_dict().items()}
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    model.load_state_dict(saved, strict=False)  # WRONG
    opt = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        F.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        opt.step()


def nan_from_a_logarithm():
    torch.manual_seed(10)
    net = nn.Linear(4, 1)
    opt = optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(32, 4)
        rate = net(x)
        loss = (rate - torch.log(rate) * 3).mean()  # WRONG
        opt.zero_grad()
        loss.backward()
        opt.step()


def units_all_alike():
    torch.manual_seed(11)
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    for layer in net:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.1)  # WRONG
            nn.init.zeros_(layer.bias)
    opt = optim.SGD(net.parameters(), lr=0.05)
    for _ in range(8):
        x = torch.randn(32, 6)
        loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()


def labels_in_order():
    torch.manual_seed(12)
    y = torch.arange(5).repeat_interleave(40)
    x = torch.randn(200, 6) + y.unsqueeze(1)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    opt = optim.Adam(net.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(x, y), batch_size=20)  # WRONG
    for epoch in range(3):
        for xb, yb in loader:
            opt.zero_grad()
            F.cross_entropy(net(xb), yb).backward()
            opt.step()
