"""Broken programs of ordinary shapes. The line to mend ends in `# WRONG`."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim
from flambeau.utils.data import DataLoader, TensorDataset


def _loader(batch=16, shuffle=True):
    g = torch.Generator().manual_seed(1)
    y = torch.randint(0, 3, (64,), generator=g)
    x = torch.randn(64, 6, generator=g) + y[:, None]
    return DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=shuffle)


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.drop, self.fc2 = nn.Linear(6, 16), nn.Dropout(0.3), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.fc1(x))))


def clipped_after_the_step():
    model = _Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for x, y in _loader():
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # WRONG


def cleared_within_an_accumulation():
    model = _Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for i, (x, y) in enumerate(_loader(8)):
            optimizer.zero_grad()  # WRONG
            (F.cross_entropy(model(x), y) / 4).backward()
            if i % 4 == 3:
                optimizer.step()


def log_softmax_over_the_batch():
    model = _Net()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        for x, y in _loader():
            loss = F.nll_loss(F.log_softmax(model(x), dim=0), y)  # WRONG
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def binary_labels_of_one_and_two():
    torch.manual_seed(0)
    model, x = nn.Linear(6, 1), torch.randn(32, 6)
    y = torch.randint(1, 3, (32, 1)).float()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(12):
        loss = F.binary_cross_entropy_with_logits(model(x), y)  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def body_under_no_grad_and_still_to_be_trained():
    body, head = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 3)
    optimizer = optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(2):
        for x, y in _loader():
            with torch.no_grad():
                h = body(x)  # WRONG
            optimizer.zero_grad()
            F.cross_entropy(head(h), y).backward()
            optimizer.step()


def trained_in_eval_mode_after_the_first_epoch():
    model, train, test = _Net(), _loader(), _loader(32, False)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(3):
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()  # WRONG
        with torch.no_grad():
            for x, _y in test:
                model(x)


def probabilities_from_the_model_itself():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = _Net()

        def forward(self, x):
            return F.softmax(self.body(x), dim=1)  # WRONG

    model, criterion = Classifier(), nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        for x, y in _loader():
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


def second_optimizer_never_steps():
    first, second = nn.Linear(6, 8), nn.Linear(8, 3)
    one = optim.Adam(first.parameters(), lr=1e-3)
    two = optim.Adam(second.parameters(), lr=1e-3)  # WRONG
    for _ in range(3):
        for x, y in _loader():
            one.zero_grad()
            two.zero_grad()
            F.cross_entropy(second(F.relu(first(x))), y).backward()  # WRONG
            one.step()


def regression_with_a_column_of_outputs():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    data = TensorDataset(torch.randn(64, 6), torch.randn(64))
    criterion, optimizer = nn.MSELoss(), optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=16):
            loss = criterion(model(x), y)  # WRONG
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def bidirectional_language_model():
    torch.manual_seed(0)
    embedding, head = nn.Embedding(20, 8), nn.Linear(16, 20)
    rnn = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
    optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *head.parameters()])
    for _ in range(8):
        tokens = torch.randint(0, 20, (8, 11))
        out, _state = rnn(embedding(tokens[:, :-1]))
        loss = F.cross_entropy(head(out).reshape(-1, 20), tokens[:, 1:].reshape(-1))  # WRONG
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
