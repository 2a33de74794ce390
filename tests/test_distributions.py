"""torch.distributions: densities against SciPy's, moments and divergences against draws."""

from __future__ import annotations

import pytest
import scipy.stats as st

import flambeau as torch
from flambeau import distributions as D
from flambeau import nn


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


# name: (distribution, the same in SciPy, values)
KNOWN = {
    "Normal": (D.Normal(t(1.0), t(2.0)), st.norm(1, 2), t(-3.0, 0.5, 4.0)),
    "Laplace": (D.Laplace(t(1.0), t(2.0)), st.laplace(1, 2), t(-3.0, 0.5, 4.0)),
    "Cauchy": (D.Cauchy(t(1.0), t(2.0)), st.cauchy(1, 2), t(-3.0, 0.5, 4.0)),
    "StudentT": (D.StudentT(t(5.0), t(1.0), t(2.0)), st.t(5, 1, 2), t(-3.0, 0.5, 4.0)),
    "Uniform": (D.Uniform(t(1.0), t(4.0)), st.uniform(1, 3), t(1.0, 2.5, 3.9)),
    "Gumbel": (D.Gumbel(t(1.0), t(2.0)), st.gumbel_r(1, 2), t(-1.0, 0.5, 4.0)),
    "LogNormal": (D.LogNormal(t(0.3), t(0.5)), st.lognorm(0.5, scale=1.3498588), t(0.4, 1.0, 3.0)),
    "HalfNormal": (D.HalfNormal(t(2.0)), st.halfnorm(0, 2), t(0.1, 1.0, 3.0)),
    "Exponential": (D.Exponential(t(2.0)), st.expon(scale=0.5), t(0.1, 1.0, 3.0)),
    "Gamma": (D.Gamma(t(2.5), t(2.0)), st.gamma(2.5, scale=0.5), t(0.1, 1.0, 3.0)),
    "Chi2": (D.Chi2(t(3.0)), st.chi2(3), t(0.1, 1.0, 3.0)),
    "Beta": (D.Beta(t(2.0), t(3.0)), st.beta(2, 3), t(0.1, 0.5, 0.9)),
    "Bernoulli": (D.Bernoulli(t(0.3)), st.bernoulli(0.3), t(0.0, 1.0)),
    "Geometric": (D.Geometric(t(0.3)), st.geom(0.3, -1), t(0.0, 2.0, 5.0)),
    "Binomial": (D.Binomial(5, t(0.3)), st.binom(5, 0.3), t(0.0, 2.0, 5.0)),
    "Poisson": (D.Poisson(t(3.0)), st.poisson(3), t(0.0, 2.0, 5.0)),
}
HEAVY = ("Cauchy",)  # no moments


def logarithm(scipy, x):
    return (scipy.logpmf if hasattr(scipy.dist, "pmf") else scipy.logpdf)(x)


@pytest.mark.parametrize("name", KNOWN)
def test_log_prob(name):
    ours, scipy, values = KNOWN[name]
    wanted = torch.tensor(logarithm(scipy, values.numpy()))
    torch.testing.assert_close(ours.log_prob(values).reshape(-1), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [n for n in KNOWN if n not in HEAVY])
def test_moments_and_draws(name):
    ours, scipy, _ = KNOWN[name]
    assert float(ours.mean) == pytest.approx(scipy.mean(), rel=1e-6)
    assert float(ours.variance) == pytest.approx(scipy.var(), rel=1e-6)
    torch.manual_seed(0)
    drawn = ours.sample((4000,))
    assert drawn.shape[:1] == (4000,)
    assert float(drawn.mean()) == pytest.approx(scipy.mean(), abs=5 * scipy.std() / 4000**0.5)
    assert not drawn.requires_grad


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Cauchy", "Uniform", "Exponential",
                                  "LogNormal", "HalfNormal", "Gumbel"])
def test_cdf_and_its_inverse(name):
    ours, scipy, values = KNOWN[name]
    wanted = torch.tensor(scipy.cdf(values.numpy()))
    probabilities = ours.cdf(values)
    torch.testing.assert_close(probabilities.reshape(-1), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.icdf(probabilities), values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "Gamma",
                                  "Beta", "Bernoulli", "Gumbel", "LogNormal"])
def test_entropy(name):
    ours, scipy, _ = KNOWN[name]
    assert float(ours.entropy()) == pytest.approx(float(scipy.entropy()), rel=1e-6)


def test_categorical():
    categorical = D.Categorical(logits=t(0.0, 1.0, 2.0))
    assert categorical.probs.sum().item() == pytest.approx(1)
    log_probabilities = categorical.log_prob(torch.tensor([2, 0]))
    torch.testing.assert_close(log_probabilities, categorical.logits[[2, 0]])
    assert categorical.entropy().item() == pytest.approx(st.entropy(categorical.probs.numpy()))
    assert categorical.sample((3, 2)).shape == (3, 2)
    assert categorical.enumerate_support().tolist() == [0, 1, 2]
    rows = D.Categorical(torch.ones(4, 3))
    assert rows.sample((5,)).shape == (5, 4)
    assert rows.log_prob(torch.zeros(4, dtype=torch.int64)).shape == (4,)
    hot = D.OneHotCategorical(torch.tensor([0.0, 1.0])).sample((3,))
    assert hot.tolist() == [[0, 1]] * 3
    multinomial = D.Multinomial(10, torch.tensor([0.2, 0.8]))
    assert multinomial.sample((6,)).sum(-1).tolist() == [10] * 6
    wanted = st.multinomial(10, [0.2, 0.8]).logpmf([3, 7])
    assert multinomial.log_prob(torch.tensor([3.0, 7.0])).item() == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("family", [D.Categorical, D.Bernoulli], ids=lambda family: family.__name__)
def test_what_a_draw_asked_for_first_still_has_its_gradient(family):
    logits = t(0.0, 1.0, 2.0).requires_grad_()
    drawn = family(logits=logits)
    drawn.sample()  # works out the probabilities, without recording how it draws
    entropy = drawn.entropy().sum()
    (gradient,) = torch.autograd.grad(entropy, logits)
    (wanted,) = torch.autograd.grad(family(logits=logits).entropy().sum(), logits)
    torch.testing.assert_close(gradient, wanted)
    assert drawn.probs.requires_grad


def test_a_straight_through_draw_hands_its_gradient_on():
    logits = t(0.0, 1.0, 2.0).requires_grad_()
    draw = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    (gradient,) = torch.autograd.grad(draw[2], logits)
    (wanted,) = torch.autograd.grad(logits.softmax(0)[2], logits)
    torch.testing.assert_close(gradient, wanted)


def test_multivariate_normal():
    covariance = torch.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
    ones = [D.MultivariateNormal(t(1.0, -1.0), covariance),
            D.MultivariateNormal(t(1.0, -1.0), scale_tril=torch.linalg.cholesky(covariance)),
            D.MultivariateNormal(t(1.0, -1.0), precision_matrix=covariance.inverse())]
    scipy = st.multivariate_normal([1, -1], covariance.numpy())
    for distribution in ones:
        assert distribution.log_prob(t(0.0, 0.3)).item() == pytest.approx(scipy.logpdf([0, 0.3]))
        assert distribution.entropy().item() == pytest.approx(scipy.entropy())
        torch.testing.assert_close(distribution.covariance_matrix, covariance)
    torch.manual_seed(0)
    torch.testing.assert_close(torch.cov(ones[0].sample((20000,)).T), covariance, rtol=0, atol=0.06)
    assert ones[0].expand((3,)).sample((2,)).shape == (2, 3, 2)


def test_independent_transformed_and_mixed():
    base = D.Normal(torch.zeros(2, 3), 1.0)
    distribution = D.Independent(base, 1)
    assert (distribution.batch_shape, distribution.event_shape) == ((2,), (3,))
    x = distribution.sample()
    torch.testing.assert_close(distribution.log_prob(x), base.log_prob(x).sum(-1))
    squashed = D.TransformedDistribution(base, [D.TanhTransform(), D.AffineTransform(1.0, 2.0)])
    y = 1 + 2 * torch.tanh(x)
    wanted = base.log_prob(x) - torch.log(2 * (1 - torch.tanh(x) ** 2))
    torch.testing.assert_close(squashed.log_prob(y), wanted, rtol=1e-4, atol=1e-4)
    mixed = D.MixtureSameFamily(D.Categorical(torch.tensor([0.3, 0.7])),
                                D.Normal(torch.tensor([0.0, 5.0]), torch.ones(2)))
    at = torch.tensor(1.0)
    density = 0.3 * st.norm(0).pdf(1) + 0.7 * st.norm(5).pdf(1)
    assert mixed.log_prob(at).exp().item() == pytest.approx(density, rel=1e-5)
    assert mixed.mean.item() == pytest.approx(3.5)
    assert mixed.sample((7,)).shape == (7,)


PAIRS = {
    "Normal": (D.Normal(0.0, 1.0), D.Normal(1.0, 2.0)),
    "Bernoulli": (D.Bernoulli(0.3), D.Bernoulli(0.6)),
    "Categorical": (D.Categorical(torch.ones(3)), D.Categorical(torch.tensor([1.0, 2.0, 3.0]))),
    "Beta": (D.Beta(2.0, 3.0), D.Beta(1.0, 1.5)),
    "Gamma": (D.Gamma(2.0, 3.0), D.Gamma(1.0, 1.5)),
    "Exponential": (D.Exponential(2.0), D.Exponential(1.0)),
    "Laplace": (D.Laplace(0.0, 1.0), D.Laplace(1.0, 2.0)),
    "Poisson": (D.Poisson(2.0), D.Poisson(3.0)),
    "Uniform": (D.Uniform(0.0, 1.0), D.Uniform(-1.0, 2.0)),
    "Dirichlet": (D.Dirichlet(torch.tensor([1.0, 2.0])), D.Dirichlet(torch.tensor([2.0, 2.0]))),
    "MultivariateNormal": (
        D.MultivariateNormal(torch.zeros(2), torch.eye(2)),
        D.MultivariateNormal(torch.ones(2), 2 * torch.eye(2)),
    ),
    "Independent": (
        D.Independent(D.Normal(torch.zeros(2), 1.0), 1),
        D.Independent(D.Normal(torch.ones(2), 2.0), 1),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_are_means_over_draws(name):
    p, q = PAIRS[name]
    torch.manual_seed(0)
    x = p.sample((8000,))
    if name in ("Beta", "Dirichlet"):
        x = x.clamp(1e-6, 1 - 1e-6)
        x = x if name == "Beta" else x / x.sum(-1, keepdim=True)
    away = p.log_prob(x) - q.log_prob(x)
    limit = 5 * away.std().item() / 8000**0.5 + 1e-5
    assert D.kl_divergence(p, q).item() == pytest.approx(away.mean().item(), abs=limit)


@pytest.mark.parametrize("make", [
    D.Normal, D.Laplace, D.Gumbel, D.Uniform, lambda a, b: D.Exponential(b),
    D.LogNormal, lambda a, b: D.Independent(D.Normal(a, b), 1),
])
def test_draws_hand_on_gradients(make):
    a = t(0.2, 0.4).requires_grad_()
    b = t(1.0, 1.5).requires_grad_()

    def draw(a, b):
        torch.manual_seed(3)
        return make(a, b).rsample((2,))

    assert torch.autograd.gradcheck(draw, (a, b))


def test_what_is_not_valid_is_refused():
    with pytest.raises(ValueError, match="Expected parameter scale .* GreaterThan"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Expected parameter probs .* Simplex"):
        D.Categorical(torch.tensor([-1.0, 2.0]))
    with pytest.raises(ValueError, match="within the support"):
        D.Exponential(1.0).log_prob(torch.tensor(-1.0))
    with pytest.raises(ValueError, match="but not both"):
        D.Bernoulli()
    with pytest.raises(ValueError, match="Expected parameter concentration"):
        D.VonMises(0.0, -1.0)
    D.Normal(0.0, -1.0, validate_args=False)


def test_draws_are_those_of_pytorch():
    torch.manual_seed(0)
    assert D.Normal(torch.zeros(2), 1.0).sample().tolist() == pytest.approx([1.5409961, -0.2934289])


def test_a_policy_step_is_compiled():
    def train(wrap):
        torch.manual_seed(0)
        net = nn.Linear(4, 3)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)

        def step(x, action, reward):
            policy = D.Categorical(logits=net(x))
            loss = -(policy.log_prob(action) * reward + 0.01 * policy.entropy()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        x, action = torch.randn(8, 4), torch.randint(3, (8,))
        return [step(x, action, x[:, 0]).item() for _ in range(8)], step

    wanted, _ = train(lambda f: f)
    actual, step = train(lambda f: torch.compile(f, mode="now", fullgraph=True))
    assert actual == pytest.approx(wanted, rel=1e-4)
    assert "kernel" in step.explain()


def test_distributions_are_found_in_the_modules_that_pytorch_keeps_them_in():
    import importlib

    from flambeau.distributions.categorical import Categorical
    from flambeau.distributions.homes import _HOMES
    from flambeau.distributions.normal import Normal

    assert Categorical is D.Categorical and Normal is D.Normal
    for home, names in _HOMES.items():
        module = importlib.import_module(f"flambeau.distributions.{home}")
        assert module is getattr(D, home)
        for name in names.split():
            here = getattr(module, name)
            assert repr(here) == repr(getattr(D, name, here))  # those that are lacking, too


def test_probabilities_and_logits_of_the_module_utils():
    from flambeau.distributions.utils import logits_to_probs, probs_to_logits

    for binary in (True, False):
        probs = t(0.2, 0.5, 0.3)
        torch.testing.assert_close(logits_to_probs(probs_to_logits(probs, binary), binary), probs)
    assert probs_to_logits(t(0.0, 1.0), True).isfinite().all()


def test_half_cauchy_and_negative_binomial_against_scipy():
    x = t(0.3, 1.0, 4.0)
    half = D.HalfCauchy(t(2.0, 2.0, 2.0))
    assert half.log_prob(x).tolist() == pytest.approx(st.halfcauchy.logpdf(x.numpy(), scale=2))
    assert half.icdf(half.cdf(x)).tolist() == pytest.approx(x.tolist())
    x = t(0.0, 2.0, 5.0)
    for counts in (D.NegativeBinomial(3.0, t(0.4)), D.NegativeBinomial(3.0, logits=t(0.4).logit())):
        wanted = st.nbinom.logpmf(x.numpy(), 3, 1 - 0.4)
        assert counts.log_prob(x).tolist() == pytest.approx(wanted.tolist())
        assert counts.mean.item() == pytest.approx(2.0)
        assert counts.variance.item() == pytest.approx(2 / 0.6)
    torch.manual_seed(0)
    drawn = D.NegativeBinomial(3.0, t(0.4)).sample((4000,))
    assert drawn.mean().item() == pytest.approx(2.0, abs=0.15)


def test_factors_of_correlations():
    lkj = D.LKJCholesky(3, t(0.5, 2.0))
    torch.manual_seed(0)
    drawn = lkj.sample((50,))
    assert drawn.shape == (50, 2, 3, 3) and lkj.log_prob(drawn).shape == (50, 2)
    product = drawn @ drawn.mT
    torch.testing.assert_close(product.diagonal(dim1=-2, dim2=-1), torch.ones_like(drawn[..., 0]))
    # uniform over the correlations of two numbers: a density of 1/2 of the correlation
    r = t(0.6)[0]
    factor = torch.stack([torch.stack([r * 0 + 1, r * 0]), torch.stack([r, (1 - r * r).sqrt()])])
    assert D.LKJCholesky(2, 1.0).log_prob(factor).exp().item() == pytest.approx(0.5)
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        D.LKJCholesky(1)


def test_asking_for_what_is_lacking_raises_nothing():
    assert hasattr(D, "VonMises") and not hasattr(D, "VonMise")
    assert not isinstance(D.Normal(0.0, 1.0), D.VonMises)


@pytest.mark.parametrize(("dtype", "limit", "expected"),
                         [("float32", 1e38, 2.76898), ("float64", 1e308, 3.58473)])
def test_continuous_bernoulli_at_the_ends(torch, dtype, limit, expected):
    for sign in (1, -1):
        logits = torch.tensor([sign * limit], dtype=getattr(torch, dtype), requires_grad=True)
        pixel = torch.distributions.ContinuousBernoulli(logits=logits)
        density = pixel.log_prob(torch.tensor([float(sign > 0)], dtype=logits.dtype))
        assert abs(density.item() - expected) < 1e-4
        (slope,) = torch.autograd.grad(density.sum(), logits)
        assert slope.item() == 0


def test_supports_are_listed_without_probabilities(torch):
    coin = torch.distributions.Bernoulli(logits=torch.zeros(3))
    assert coin.enumerate_support().shape == (2, 3)
    assert "probs" not in vars(coin)


def test_exponential_families(torch):
    d = torch.distributions
    classes = {name: getattr(d, name) for name in d.__all__ if name[0].isupper()}
    families = {name for name, kind in classes.items()
                if isinstance(kind, type) and issubclass(kind, d.ExponentialFamily)}
    assert {"Bernoulli", "ContinuousBernoulli", "Normal"} <= families
    assert not families & {"Binomial", "Geometric", "NegativeBinomial"}


def test_half_cauchy_takes_tensors_only(torch):
    with pytest.raises(ValueError, match="must be a Tensor"):
        torch.distributions.HalfCauchy(1.0).log_prob(1)


def test_bernoulli_of_its_own_memory(torch):
    x = torch.tensor([0.0, 1.0, 1.0])
    assert x.bernoulli_(x).tolist() == [0, 1, 1]
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].bernoulli_(x[:2])


def test_precisions_are_factored_without_their_inverse(torch) -> None:
    """laplace-torch imports the private functions; a nearly singular precision stays usable."""
    from importlib import import_module

    home = import_module(f"{torch.__name__}.distributions.multivariate_normal")
    generator = torch.Generator().manual_seed(0)
    root = torch.rand(3, 4, 4, generator=generator)
    precision = root @ root.mT + 0.01 * torch.eye(4)
    L = home._precision_to_scale_tril(precision)
    normal = torch.distributions.MultivariateNormal(torch.zeros(4), precision_matrix=precision)
    assert torch.equal(normal.scale_tril, L) and torch.equal(L, L.tril())
    assert (L.mT @ precision @ L - torch.eye(4)).abs().max() < 1e-2
    x = torch.rand(5, 3, 4, generator=generator)
    wanted = (x * home._batch_mv(precision, x)).sum(-1)
    assert torch.allclose(home._batch_mahalanobis(L, x), wanted, rtol=1e-2)
