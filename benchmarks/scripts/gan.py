"""A generative adversarial network on digits, with two optimizers: one epoch."""

import torch
from data import digits
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 512), nn.LeakyReLU(0.2),
    nn.Linear(512, 784), nn.Tanh(),
)
critic = nn.Sequential(
    nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(512, 256),
    nn.LeakyReLU(0.2), nn.Linear(256, 1),
)
of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for images, _ in DataLoader(digits("train", 10000), batch_size=100, shuffle=True):
    real = images.view(-1, 784)
    ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
    fake = generator(torch.randn(len(real), 64))
    of_critic.zero_grad()
    loss = criterion(critic(real), ones) + criterion(critic(fake.detach()), zeros)
    loss.backward()
    of_critic.step()
    of_generator.zero_grad()
    fooled = criterion(critic(fake), ones)
    fooled.backward()
    of_generator.step()
print(f"losses {loss.item():.1f} {fooled.item():.0f}")
