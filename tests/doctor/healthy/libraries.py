"""What installed libraries do that looks like a mistake, and is none."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim

_ENCODER = """
from flambeau import nn

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.pooler = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = self.layer(x).tanh()
        return h, self.pooler(h).tanh()
"""


def _train(model):
    opt = optim.Adam(model.parameters())
    for _ in range(6):
        opt.zero_grad()
        model(torch.randn(4, 3, 8, 9)).square().mean().backward()
        opt.step()


class _Padded(nn.Module):
    """Relative positions: a column of padding and a view shift row i by i."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(9, 8)

    def forward(self, x):
        x = F.pad(self.layer(x), (0, 0, 0, 1))
        return x.view(4, 3, 8, 9)[..., :-1]


class _Dropped(_Padded):
    """The same by a view, of which the first rows are dropped, and a view back."""

    def forward(self, x):
        x = self.layer(x).reshape(4, 3, 8, 8)
        x = torch.cat([x, x], -1)[..., :12] * 2
        x = x.reshape(4, 3, 12, 8)[:, :, 2:]
        return x.reshape(4, 3, 8, 10)


def relative_positions_shifted_after_padding():
    _train(_Padded())


def relative_positions_shifted_by_dropping_rows():
    _train(_Dropped())


def the_pooler_of_an_installed_encoder_that_nobody_asks_for():
    names = {}
    exec(compile(_ENCODER, "/env/site-packages/encoders/encoder.py", "exec"), names)
    encoder, head = names["Encoder"](), nn.Linear(6, 2)
    opt = optim.Adam([*encoder.parameters(), *head.parameters()])
    for _ in range(8):
        x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
        opt.zero_grad()
        F.cross_entropy(head(encoder(x)[0]), y).backward()
        opt.step()


def a_mask_of_positions_shifted_after_padding():
    layer = nn.Linear(9, 9)
    opt = optim.Adam(layer.parameters())
    for _ in range(4):
        mask = F.pad(torch.rand(4, 3, 8, 9), (0, 0, 0, 1)).view(4, 3, 9, 9)
        near = F.pad(torch.rand(4, 3, 8, 9), (0, 0, 0, 2)).view(4, 3, 9, 10)[..., :9]
        opt.zero_grad()
        (layer(mask) * near).square().mean().backward()
        opt.step()
