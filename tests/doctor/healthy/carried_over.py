"""States, checkpoints and attacks that look like mistakes of what is carried on, and are right."""

import io

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def streams_in_a_random_order_read_in_pieces():
    rnn, head = nn.GRU(2, 8, batch_first=True), nn.Linear(8, 1)
    x, y = torch.randn(32, 12, 2), torch.randn(32, 12, 1)
    opt = optim.Adam([*rnn.parameters(), *head.parameters()])
    for rows in torch.randperm(32).split(8):
        state = None
        for start in range(0, 12, 4):
            out, state = rnn(x[rows][:, start:start + 4], state)
            state = state.detach()
            loss = F.mse_loss(head(out), y[rows][:, start:start + 4])
            opt.zero_grad()
            loss.backward()
            opt.step()


def an_attack_that_begins_where_its_gradient_is_zero():
    net, noise = nn.Linear(8, 4), torch.zeros(16, 8, requires_grad=True)
    opt, x = optim.SGD([noise], lr=0.01), torch.randn(16, 8)
    for _ in range(5):
        loss = -(net(x + noise) - net(x).detach()).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def weights_of_a_checkpoint_fine_tuned_with_a_new_optimizer():
    net, file = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), io.BytesIO()
    opt = optim.AdamW(net.parameters(), lr=1e-3)
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
    for round in range(2):
        for _ in range(3):
            opt.zero_grad()
            F.cross_entropy(net(x), y).backward()
            opt.step()
        if not round:
            state = {"model": net.state_dict(), "optim": opt.state_dict(), "epoch": 3}
            torch.save(state, file)
            file.seek(0)
            net.load_state_dict(torch.load(file)["model"])
            opt = optim.AdamW(net.parameters(), lr=1e-4)


def tags_of_which_one_has_the_number_of_the_padding_of_words():
    emb, head = nn.Embedding(12, 8, padding_idx=0), nn.Linear(8, 3)
    opt = optim.Adam([*emb.parameters(), *head.parameters()])
    for _ in range(4):
        words = torch.randint(1, 12, (8, 9))
        words[:, 6:] = 0
        tags = (words % 3).masked_fill(words == 0, -100)
        loss = F.cross_entropy(head(emb(words)).flatten(0, 1), tags.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
