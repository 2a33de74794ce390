"""An LSTM forecaster with LBFGS, float64 and a multi-step roll-out."""

import numpy as np
import torch
import torch.nn as nn

np.random.seed(2)
torch.manual_seed(12)
L, N = 40, 6
x = np.empty((N, L), "int64")
x[:] = np.array(range(L)) + np.random.randint(-4 * 20, 4 * 20, N).reshape(N, 1)
data = torch.from_numpy(np.sin(x / 1.0 / 20).astype("float64"))


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = (
            nn.LSTMCell(1, 12),
            nn.LSTMCell(12, 12),
            nn.Linear(12, 1),
        )

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        c_t, h_t2, c_t2 = (torch.zeros_like(h_t) for _ in range(3))
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


seq = Sequence().double()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=4, line_search_fn="strong_wolfe")
for i in range(2):

    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(data[1:, :-1]), data[1:, 1:])
        loss.backward()
        return loss

    print(i, f"{optimizer.step(closure).item():.6f}")
with torch.no_grad():
    pred = seq(data[:1, :-1], future=5)
    print(f"{criterion(pred[:, :-5], data[:1, 1:]).item():.6f}", pred[0, -5:].numpy().round(4))
