"""torchvision: models with three steps of training, a detector, operators, transforms."""

import torch
import torchvision
from cases import case, cases, losses, run
from torchvision.transforms import v2

NAMES = """resnet18 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x0_5 squeezenet1_1 efficientnet_b0
mnasnet0_5 regnet_y_400mf densenet121 swin_t vit_b_32 convnext_tiny googlenet""".split()


def classifier(name):
    model = torchvision.models.get_model(name, weights=None, num_classes=5)
    images, labels = torch.randn(2, 3, 64, 64), torch.tensor([1, 3])
    if name == "vit_b_32":
        images = torch.randn(2, 3, 224, 224)

    def loss_of(model):
        out = model(images)
        return torch.nn.functional.cross_entropy(getattr(out, "logits", out), labels)

    return losses(model, loss_of, steps=2)


@case
def segmentation():
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3
    )
    return model.eval()(torch.randn(1, 3, 64, 64))["out"]


@case
def detector():
    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3
    )
    target = {"boxes": torch.tensor([[10.0, 10, 100, 120]]), "labels": torch.tensor([1])}
    return list(model([torch.rand(3, 160, 160)] * 2, [target] * 2).values())


@case
def boxes():
    boxes = torch.rand(40, 4).cumsum(1) * 20
    selected = torchvision.ops.nms(boxes, torch.rand(40), 0.3)
    features = torch.rand(1, 4, 16, 16, requires_grad=True)
    rows = torch.cat([torch.zeros(40, 1), boxes], 1)
    pooled = torchvision.ops.roi_align(features, rows, 3)
    return [selected, pooled, torch.autograd.grad(pooled.sum(), features)[0]]


@case
def transforms():
    image = torch.randint(0, 256, (3, 40, 50), dtype=torch.uint8)
    chain = v2.Compose([
        v2.RandomResizedCrop(24, antialias=True), v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.2, 0.2),
        v2.RandomRotation(10), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5]),
    ])
    return [chain(image), v2.AutoAugment()(image), v2.GaussianBlur(3)(image)]


@case
def datasets():
    fake = torchvision.datasets.FakeData(8, (3, 16, 16), 3, torchvision.transforms.ToTensor())
    images, labels = next(iter(torch.utils.data.DataLoader(fake, 8)))
    return [images, labels, torchvision.utils.make_grid(images)]


cases(NAMES, classifier)
run()
