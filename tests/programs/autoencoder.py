"""A U-Net-like convolutional autoencoder: upsampling, skip connections, L1 and total variation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1 = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1)
        )
        self.d2 = nn.Conv2d(8, 16, 3, stride=2, padding=1, padding_mode="reflect")
        self.mid = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.out = nn.Conv2d(24, 4, 1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x):
        a = self.d1(x)
        b = F.hardswish(self.mid(F.gelu(self.d2(a))))
        c = torch.cat([a, self.up(b)], dim=1)
        return F.avg_pool2d(self.shuffle(self.out(c)), 2)


net = UNet()
opt = torch.optim.NAdam(net.parameters(), 5e-3)
x = F.interpolate(torch.rand(8, 1, 4, 4), size=(12, 12), mode="bicubic", align_corners=True)
for step in range(8):
    noisy = x + 0.1 * torch.randn_like(x)
    y = net(noisy)
    tv = (y[..., 1:] - y[..., :-1]).abs().mean() + (y[..., 1:, :] - y[..., :-1, :]).abs().mean()
    loss = F.l1_loss(y, x) + 0.05 * tv + F.huber_loss(y, x, delta=0.1)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2 == 0:
        print(step, f"{loss.item():.5f}")
mse = F.mse_loss(y, x)
print(f"psnr {-10 * torch.log10(mse).item():.4f}", y.shape)
