"""REINFORCE and actor-critic on a hand-made corridor, as in pytorch/examples."""

from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

torch.manual_seed(5)
Saved = namedtuple("Saved", ["log_prob", "value"])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 32)
        self.dropout = nn.Dropout(p=0.2)
        self.action_head, self.value_head = nn.Linear(32, 2), nn.Linear(32, 1)
        self.saved, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
opt = torch.optim.Adam(model.parameters(), lr=3e-2)
eps = torch.finfo(torch.float32).eps
for episode in range(5):
    pos, total = 0, 0
    for t in range(20):
        state = torch.tensor([pos, 5 - pos, t / 20, 1.0])
        probs, value = model(state)
        m = Categorical(probs)
        action = m.sample()
        model.saved.append(Saved(m.log_prob(action), value))
        pos += 1 if action.item() else -1
        reward = 1.0 if pos == 5 else -0.1
        model.rewards.append(reward)
        total += reward
        if abs(pos) == 5:
            break
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value), R in zip(model.saved, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    opt.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    opt.step()
    del model.rewards[:], model.saved[:]
    print(episode, t, round(total, 3), f"{loss.item():.4f} {m.entropy().item():.4f}")
