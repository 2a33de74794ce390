"""timm: models of many families with two steps of training, and its optimizers and schedulers."""

import timm
import timm.optim
import timm.scheduler
import torch
from cases import case, cases, losses, run

NAMES = """resnet10t resnext50_32x4d mobilenetv3_small_050 efficientnet_lite0 regnetx_002
ghostnet_050 convnext_atto vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s32_224
levit_128s edgenext_xx_small mobilevit_xxs tinynet_e hardcorenas_a repvgg_a0 lcnet_035
poolformerv2_s12""".split()


def model(name):
    result = timm.create_model(name, num_classes=5)
    size = 224 if "224" in name or "levit" in name else 64
    images, labels = torch.randn(2, 3, size, size), torch.tensor([1, 3])
    return losses(result, lambda m: torch.nn.functional.cross_entropy(m(images), labels), 2)


def optimizer(name):
    layer = torch.nn.Linear(4, 3)
    opt = timm.optim.create_optimizer_v2(layer, opt=name.partition(":")[2], lr=1e-2)
    schedule, _ = timm.scheduler.create_scheduler_v2(opt, num_epochs=4, warmup_epochs=1)
    results = []
    for epoch in range(4):
        opt.zero_grad()
        loss = (layer(torch.ones(2, 4)) ** 2).sum()
        loss.backward()
        opt.step()
        schedule.step(epoch)
        results.append(loss)
    return results


cases(NAMES, model)
cases([f"optimizer:{n}" for n in "sgd adamw lamb lion adafactor nadamw rmsproptf adan".split()],
      optimizer)


@case
def features():
    return timm.create_model("resnet10t", features_only=True).eval()(torch.randn(1, 3, 64, 64))


run()
