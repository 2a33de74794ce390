"""Healthy programs: GANs, gradient penalties, adversarial examples, several optimizers."""

import itertools

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn, optim


def _networks(out=1):
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, out))
    return generator, critic


def gan_as_in_the_tutorials():
    generator, critic = _networks()
    criterion = nn.BCEWithLogitsLoss()
    opt_g = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in range(12):
        real = torch.randn(16, 2) + 3
        critic.zero_grad()
        loss_real = criterion(critic(real).view(-1), torch.ones(16))
        loss_real.backward()
        fake = generator(torch.randn(16, 4))
        loss_fake = criterion(critic(fake.detach()).view(-1), torch.zeros(16))
        loss_fake.backward()
        opt_d.step()
        generator.zero_grad()
        loss_g = criterion(critic(fake).view(-1), torch.ones(16))
        loss_g.backward()
        opt_g.step()


def wgan_gp():
    generator, critic = _networks()
    opt_g = optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    opt_d = optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for step in range(12):
        real = torch.randn(16, 2)
        fake = generator(torch.randn(16, 4)).detach()
        alpha = torch.rand(16, 1)
        mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        if step % 5 == 4:
            opt_g.zero_grad()
            (-critic(generator(torch.randn(16, 4))).mean()).backward()
            opt_g.step()


def wgan_with_clipped_weights():
    generator, critic = _networks()
    opt_g = optim.RMSprop(generator.parameters(), lr=5e-5)
    opt_d = optim.RMSprop(critic.parameters(), lr=5e-5)
    for step in range(12):
        with torch.no_grad():
            fake = generator(torch.randn(16, 4))
        loss = -critic(torch.randn(16, 2)).mean() + critic(fake).mean()
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        for p in critic.parameters():
            p.data.clamp_(-0.01, 0.01)
        if step % 4 == 3:
            opt_g.zero_grad()
            loss_g = -critic(generator(torch.randn(16, 4))).mean()
            loss_g.backward()
            opt_g.step()


def cycle_gan_with_frozen_critics():
    torch.manual_seed(1)
    there, back = nn.Linear(3, 3), nn.Linear(3, 3)
    critics = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
    opt = optim.Adam(itertools.chain(there.parameters(), back.parameters()), lr=1e-3)
    opt_d = optim.Adam(critics.parameters(), lr=1e-3)
    for _ in range(8):
        a, b = torch.randn(8, 3), torch.randn(8, 3)
        critics.requires_grad_(False)
        fake_b, fake_a = there(a), back(b)
        cycle = F.l1_loss(back(fake_b), a) + F.l1_loss(there(fake_a), b)
        scores = torch.cat([critics[0](fake_a), critics[1](fake_b)])
        adversarial = 2 * F.mse_loss(scores, torch.ones(16, 1))
        opt.zero_grad()
        (cycle * 10 + adversarial).backward()
        opt.step()
        critics.requires_grad_(True)
        opt_d.zero_grad()
        for critic, real, fake in ((critics[0], a, fake_a), (critics[1], b, fake_b)):
            loss = F.mse_loss(critic(real), torch.ones(8, 1))
            loss = loss + F.mse_loss(critic(fake.detach()), torch.zeros(8, 1))
            loss.backward()
        opt_d.step()


def fgsm_attack_on_a_model_in_eval_mode():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(20, 3))
    opt = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x, y = torch.randn(16, 10), torch.randint(0, 3, (16,))
        model.eval()
        x.requires_grad_(True)
        F.cross_entropy(model(x), y).backward()
        attacked = (x + 0.1 * x.grad.sign()).detach()
        model.train()
        opt.zero_grad()
        F.cross_entropy(model(attacked), y).backward()
        opt.step()


def optimising_the_input():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).eval()
    image = torch.zeros(1, 10, requires_grad=True)
    opt = optim.Adam([image], lr=0.1)
    for _ in range(15):
        opt.zero_grad()
        loss = -model(image)[0, 1] + 0.01 * image.pow(2).sum()
        loss.backward()
        opt.step()


def style_transfer_with_lbfgs():
    torch.manual_seed(4)
    features = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3)).eval()
    for p in features.parameters():
        p.requires_grad_(False)
    goal = features(torch.rand(1, 3, 12, 12)).detach()
    canvas = torch.rand(1, 3, 12, 12).requires_grad_()
    opt = optim.LBFGS([canvas], max_iter=4)
    for _ in range(4):

        def closure():
            with torch.no_grad():
                canvas.clamp_(0, 1)
            opt.zero_grad()
            loss = F.mse_loss(features(canvas), goal)
            loss.backward()
            return loss

        opt.step(closure)


def attacks_in_evaluation_mode_with_autograd_grad():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    opt = optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    for _ in range(10):
        model.eval()
        delta = torch.zeros_like(x)
        for _ in range(4):
            delta.requires_grad_(True)
            loss = F.cross_entropy(model(x + delta), y)
            (grad,) = torch.autograd.grad(loss, delta)
            delta = (delta.detach() + 0.02 * grad.sign()).clamp(-0.1, 0.1)
        model.train()
        opt.zero_grad()
        F.cross_entropy(model((x + delta).detach()), y).backward()
        opt.step()
