"""Healthy programs: policies, value functions, target networks, no losses in the usual sense."""

import collections
import copy
import random

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def reinforce():
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=-1))
    opt = optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(6):
        log_probs, rewards = [], []
        state = torch.randn(4)
        for _ in range(8):
            pi = torch.distributions.Categorical(policy(state))
            action = pi.sample()
            log_probs.append(pi.log_prob(action))
            rewards.append(float(action) - 0.5)
            state = torch.randn(4)
        returns, total = [], 0.0
        for r in reversed(rewards):
            total = r + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-8)
        loss = torch.stack([-p * g for p, g in zip(log_probs, returns, strict=True)]).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def actor_critic_sharing_a_body():
    torch.manual_seed(1)

    class ActorCritic(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 16)
            self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return F.softmax(self.actor(h), -1), self.critic(h)

    net = ActorCritic()
    opt = optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(8):
        states, rewards = torch.randn(20, 4), torch.randn(20)
        p, value = net(states)
        pi = torch.distributions.Categorical(p)
        actions = pi.sample()
        advantage = rewards - value.squeeze(-1)
        actor_loss = -(pi.log_prob(actions) * advantage.detach()).mean()
        critic_loss = advantage.pow(2).mean()
        loss = actor_loss + 0.5 * critic_loss - 0.01 * pi.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()


def dqn_with_a_target_network():
    torch.manual_seed(2)
    random.seed(2)
    q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target.load_state_dict(q.state_dict())
    target.eval()
    opt = optim.AdamW(q.parameters(), lr=1e-3, amsgrad=True)
    memory = collections.deque(maxlen=200)
    state = torch.randn(4)
    for step in range(40):
        with torch.no_grad():
            action = q(state).argmax().item() if random.random() > 0.3 else random.randrange(2)
        following, reward = torch.randn(4), random.random()
        memory.append((state, action, reward, following))
        state = following
        if len(memory) < 16:
            continue
        batch = random.sample(list(memory), 16)
        s = torch.stack([b[0] for b in batch])
        a = torch.tensor([b[1] for b in batch]).unsqueeze(1)
        r = torch.tensor([b[2] for b in batch])
        n = torch.stack([b[3] for b in batch])
        values = q(s).gather(1, a)
        with torch.no_grad():
            goals = r + 0.99 * target(n).max(1).values
        loss = F.smooth_l1_loss(values, goals.unsqueeze(1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 100)
        opt.step()
        if step % 10 == 0:
            mixed = target.state_dict()
            for key, value in q.state_dict().items():
                mixed[key] = value * 0.05 + mixed[key] * 0.95
            target.load_state_dict(mixed)


def ppo_with_several_epochs_a_rollout():
    torch.manual_seed(3)
    actor, critic = nn.Linear(5, 3), nn.Linear(5, 1)
    opt = optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    for _ in range(3):
        with torch.no_grad():
            obs = torch.randn(32, 5)
            pi = torch.distributions.Categorical(logits=actor(obs))
            actions = pi.sample()
            old, returns = pi.log_prob(actions), torch.randn(32)
            advantage = returns - critic(obs).squeeze(1)
        for _ in range(3):
            for rows in torch.randperm(32).split(8):
                pi = torch.distributions.Categorical(logits=actor(obs[rows]))
                new = pi.log_prob(actions[rows])
                ratio = (new - old[rows]).exp()
                a = advantage[rows]
                policy_loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                value_loss = F.mse_loss(critic(obs[rows]).squeeze(1), returns[rows])
                opt.zero_grad()
                (policy_loss + 0.5 * value_loss).backward()
                opt.step()


def soft_actor_critic():
    torch.manual_seed(4)
    actor = nn.Linear(3, 2)
    critics = nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
    targets = copy.deepcopy(critics)
    log_alpha = torch.zeros(1, requires_grad=True)
    opt_actor = optim.Adam(actor.parameters(), lr=1e-3)
    opt_critic = optim.Adam(critics.parameters(), lr=1e-3)
    opt_alpha = optim.Adam([log_alpha], lr=1e-3)

    def act(state):
        mean, log_std = actor(state).chunk(2, -1)
        pi = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        action = pi.rsample()
        return torch.tanh(action), pi.log_prob(action).sum(-1, keepdim=True)

    for _ in range(10):
        s, r, n = torch.randn(16, 3), torch.randn(16, 1), torch.randn(16, 3)
        a = torch.rand(16, 1) * 2 - 1
        with torch.no_grad():
            na, lp = act(n)
            low = torch.min(*[t(torch.cat([n, na], 1)) for t in targets])
            goal = r + 0.99 * (low - log_alpha.exp() * lp)
        loss = sum(F.mse_loss(c(torch.cat([s, a], 1)), goal) for c in critics)
        opt_critic.zero_grad()
        loss.backward()
        opt_critic.step()
        pa, lp = act(s)
        low = torch.min(*[c(torch.cat([s, pa], 1)) for c in critics])
        actor_loss = (log_alpha.exp().detach() * lp - low).mean()
        opt_actor.zero_grad()
        actor_loss.backward()
        opt_actor.step()
        alpha_loss = -(log_alpha * (lp.detach() - 1)).mean()
        opt_alpha.zero_grad()
        alpha_loss.backward()
        opt_alpha.step()
        with torch.no_grad():
            for t, c in zip(targets.parameters(), critics.parameters(), strict=True):
                t.mul_(0.995).add_(0.005 * c)


def evolution_strategy_without_gradients():
    torch.manual_seed(5)
    net = nn.Linear(3, 1)
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    with torch.no_grad():
        theta = nn.utils.parameters_to_vector(net.parameters())
        for _ in range(6):
            noise = torch.randn(8, theta.numel())
            scores = []
            for e in noise:
                nn.utils.vector_to_parameters(theta + 0.1 * e, net.parameters())
                scores.append(-F.mse_loss(net(x), y))
            weights = torch.softmax(torch.stack(scores), 0)
            theta = theta + 0.1 * (weights[:, None] * noise).sum(0)
        nn.utils.vector_to_parameters(theta, net.parameters())
