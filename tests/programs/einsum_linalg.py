"""einsum, linear algebra, fft, and indexing tricks as scripts use them."""

import numpy as np
import torch

torch.manual_seed(22)
q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 6, 8)
s = torch.einsum("bhqd,bhkd->bhqk", q, k) / 8**0.5
print(
    s.softmax(-1).sum().item(),
    torch.einsum("ii", torch.eye(3)).item(),
    torch.einsum("...ij->...ji", q).shape,
)
A = torch.randn(6, 4, dtype=torch.double)
U, S, Vh = torch.linalg.svd(A, full_matrices=False)
print(S, torch.dist(A, U @ torch.diag(S) @ Vh).item() < 1e-9)
Q, R = torch.linalg.qr(A)
B = A.T @ A + torch.eye(4)
L = torch.linalg.cholesky(B)
w, V = torch.linalg.eigh(B)
print(w, torch.linalg.det(B).item(), torch.logdet(B).item(), torch.linalg.cond(B).item())
print(
    torch.linalg.solve(B, torch.ones(4, dtype=torch.double)),
    torch.linalg.lstsq(A, torch.ones(6, 1, dtype=torch.double)).solution.squeeze(),
)
print(
    torch.linalg.matrix_norm(B, "nuc").item(),
    torch.linalg.matrix_rank(A).item(),
    torch.linalg.pinv(A).shape,
)
f = torch.fft.rfft(torch.arange(8.0))
print(f, torch.fft.irfft(f, 8).round(decimals=4), torch.fft.fftshift(torch.fft.fftfreq(4)))
spec = torch.stft(
    torch.sin(torch.arange(64.0)), 16, 8, window=torch.hann_window(16), return_complex=True
)
print(
    spec.shape,
    torch.istft(spec, 16, 8, window=torch.hann_window(16)).shape,
    spec.abs().max().item(),
)
x = torch.arange(24).reshape(2, 3, 4)
print(
    x[..., [0, -1]].tolist(),
    x[:, x[0, :, 0] > 3].shape,
    x.unfold(2, 2, 1).shape,
    x[None, :, 1, ::2].shape,
)
x[0, torch.tensor([0, 2])] = -1
print(
    x.sum().item(),
    torch.where(x < 0),
    (x == -1).nonzero().shape,
    torch.tril(torch.ones(3, 3)).bool().logical_not(),
)
print(
    torch.bucketize(torch.tensor([1.5, 3]), torch.tensor([1.0, 2, 3])),
    torch.histc(torch.arange(10.0), 5),
    torch.unique(torch.tensor([3, 1, 3]), return_counts=True),
)
print(
    torch.from_numpy(np.float32([1, 2])) + np.float32(1),
    np.asarray(torch.ones(2)).dtype,
    torch.as_tensor(np.arange(3)).dtype,
)
print(
    torch.quantile(torch.arange(5.0), torch.tensor([0.1, 0.5])),
    torch.cov(torch.randn(2, 5)).shape,
    torch.corrcoef(torch.arange(6.0).view(2, 3)),
)
print(
    torch.cumsum(torch.ones(3), 0),
    torch.logcumsumexp(torch.arange(3.0), 0),
    torch.trapezoid(torch.arange(4.0)),
    torch.kron(torch.eye(2), torch.ones(1, 2)),
)
a, b = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
print(
    torch.stack([a, b], -1).reshape(-1, 2).tolist(),
    torch.combinations(torch.arange(3)).tolist(),
    torch.cartesian_prod(torch.arange(2), torch.arange(2)).tolist(),
)
