"""DQN with replay memory, a target network by soft updates and the Huber loss."""

import math
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim

random.seed(6)
torch.manual_seed(6)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2, self.layer3 = (
            nn.Linear(4, 32),
            nn.Linear(32, 32),
            nn.Linear(32, 2),
        )

    def forward(self, x):
        return self.layer3(torch.relu(self.layer2(torch.relu(self.layer1(x)))))


policy, target = DQN(), DQN()
target.load_state_dict(policy.state_dict())
opt = optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True)
memory, steps = deque([], maxlen=200), 0


def select(state):
    global steps
    steps += 1
    if random.random() > 0.05 + 0.85 * math.exp(-steps / 50):
        with torch.no_grad():
            return policy(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], dtype=torch.long)


def optimize():
    if len(memory) < 32:
        return None
    batch = Transition(*zip(*random.sample(memory, 32)))
    mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
    nexts = torch.cat([s for s in batch.next_state if s is not None])
    values = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    after = torch.zeros(32)
    with torch.no_grad():
        after[mask] = target(nexts).max(1).values
    expected = after * 0.99 + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
    opt.step()
    return loss.item()


for episode in range(6):
    state = torch.randn(1, 4)
    for t in range(20):
        action = select(state)
        reward = torch.tensor([float(state[0, 0] > 0) * (1 if action.item() else -1)])
        done = t == 19
        nxt = None if done else state * 0.9 + 0.3 * torch.randn(1, 4)
        memory.append(Transition(state, action, nxt, reward))
        state = nxt
        loss = optimize()
        td, pd = target.state_dict(), policy.state_dict()
        for key in pd:
            td[key] = pd[key] * 0.005 + td[key] * 0.995
        target.load_state_dict(td)
    print(episode, steps, loss if loss is None else round(loss, 5))
