"""Libraries of models and operators: kornia, torch-geometric, gpytorch, keras, einops, captum,
pyro, torchdiffeq, pytorch-metric-learning. Each a few calls with gradients."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import torch
from cases import case, losses, run
from torch import nn


@case
def kornia():
    import kornia as K

    image = torch.rand(1, 3, 24, 24, requires_grad=True)
    results = [
        K.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0)), K.color.rgb_to_hsv(image),
        K.filters.sobel(image), K.geometry.rotate(image, torch.tensor([30.0])),
        K.feature.harris_response(image), K.losses.ssim_loss(image, image.flip(3), 5),
        K.augmentation.RandomAffine(20.0, p=1.0)(image), K.enhance.equalize(image.detach()),
    ]
    return [*results, torch.autograd.grad(results[0].sum() + results[5], image)[0]]


@case
def torch_geometric():
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_mean_pool

    class Graphs(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([GCNConv(6, 8), GATConv(8, 4, heads=2), SAGEConv(8, 8),
                                         GINConv(nn.Linear(8, 8))])
            self.out = nn.Linear(8, 3)

        def forward(self, data):
            x = data.x
            for layer in self.layers:
                x = layer(x, data.edge_index).relu()
            return self.out(global_mean_pool(x, data.batch))

    graphs = [Data(torch.randn(9, 6), torch.randint(0, 9, (2, 30))) for _ in range(4)]
    batch, labels = Batch.from_data_list(graphs), torch.tensor([0, 1, 2, 0])
    return losses(Graphs(), lambda m: nn.functional.cross_entropy(m(batch), labels))


@case
def gpytorch():
    import gpytorch as gp

    x = torch.linspace(0, 1, 20)
    y = torch.sin(6 * x)

    class Process(gp.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gp.means.ConstantMean()
            self.covar_module = gp.kernels.ScaleKernel(gp.kernels.RBFKernel())

        def forward(self, x):
            return gp.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gp.likelihoods.GaussianLikelihood()
    model = Process(likelihood)
    score = gp.mlls.ExactMarginalLogLikelihood(likelihood, model)
    result = losses(model, lambda m: -score(m(x), y))
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        there = likelihood(model(torch.tensor([0.33, 0.77])))
    return [*result, there.mean, there.variance]


@case
def keras():
    import keras as k

    k.utils.set_random_seed(0)
    model = k.Sequential([k.layers.Conv2D(4, 3), k.layers.BatchNormalization(), k.layers.ReLU(),
                          k.layers.MaxPooling2D(), k.layers.Flatten(),
                          k.layers.Dense(3)])
    loss = k.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    x, y = torch.randn(24, 12, 12, 1).numpy(), torch.randint(0, 3, (24,)).numpy()
    history = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
    return [*history.history["loss"], torch.from_numpy(model.predict(x, verbose=0))]


@case
def keras_recurrent():
    import keras as k

    k.utils.set_random_seed(0)
    model = k.Sequential([k.layers.Embedding(20, 8), k.layers.LSTM(8), k.layers.Dense(1)])
    model.compile("rmsprop", "mse")
    x, y = torch.randint(0, 20, (16, 6)).numpy(), torch.randn(16, 1).numpy()
    return model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False).history["loss"]


@case
def einops():
    from einops import einsum, rearrange, reduce, repeat
    from einops.layers.torch import Rearrange

    x = torch.randn(2, 4, 6, requires_grad=True)
    y = rearrange(x, "b (h w) c -> b h (w c)", h=2)
    results = [y, reduce(x, "b n c -> b c", "max"), repeat(x, "b n c -> b n c k", k=2),
             einsum(x, x, "b n c, b m c -> b n m"), Rearrange("b n c -> n (b c)")(x)]
    return [*results, torch.autograd.grad(sum(f.sin().sum() for f in results), x)[0]]


@case
def captum():
    from captum.attr import DeepLift, IntegratedGradients, Occlusion, Saliency

    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(2, 6)
    ways = [IntegratedGradients(model), Saliency(model), DeepLift(model)]
    results = [way.attribute(x, target=1) for way in ways]
    return [*results, Occlusion(model).attribute(x, (2,), target=1)]


@case
def pyro():
    import pyro as p
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO

    p.set_rng_seed(0)
    p.clear_param_store()
    data = torch.randn(20) + 3

    def model():
        mean = p.sample("mean", dist.Normal(0.0, 10.0))
        with p.plate("data", 20):
            p.sample("x", dist.Normal(mean, 1.0), obs=data)

    def guide():
        loc = p.param("loc", torch.tensor(0.0))
        scale = p.param("scale", torch.tensor(1.0), constraint=dist.constraints.positive)
        p.sample("mean", dist.Normal(loc, scale))

    steps = SVI(model, guide, p.optim.Adam({"lr": 0.1}), Trace_ELBO())
    return [steps.step() for _ in range(5)] + [p.param("loc"), p.param("scale")]


@case
def torchdiffeq():
    from torchdiffeq import odeint, odeint_adjoint

    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    start, times = torch.randn(3, 2), torch.linspace(0, 1, 5)

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, t, y):
            return self.net(y)

    y = odeint_adjoint(Field(), start, times)
    y.sum().backward()
    return [y, odeint(Field(), start, times, method="rk4"), net[0].weight.grad]


@case
def pytorch_metric_learning():
    from pytorch_metric_learning import losses as metric_losses
    from pytorch_metric_learning import miners

    x, labels = torch.randn(12, 5, requires_grad=True), torch.arange(12) % 3
    results = [loss(x, labels) for loss in (
        metric_losses.TripletMarginLoss(), metric_losses.ContrastiveLoss(),
        metric_losses.NTXentLoss(), metric_losses.CircleLoss(), metric_losses.SupConLoss(),
    )]
    pairs = miners.MultiSimilarityMiner()(x, labels)
    return [*results, *pairs, torch.autograd.grad(sum(results), x)[0]]


run()
