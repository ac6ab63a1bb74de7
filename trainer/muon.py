"""Muon (Jordan et al., 2024): momentum, made orthogonal by Newton-Schulz iterations. For matrices of hidden layers."""

import torch
from torch import Tensor


def orthogonal(gradient: Tensor) -> Tensor:
    """Roughly U V^T of the matrix's singular value decomposition, by five quintic iterations."""
    a, b, c = 3.4445, -4.7750, 2.0315
    wide = gradient.shape[0] <= gradient.shape[1]
    x = gradient if wide else gradient.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.T


class Muon(torch.optim.Optimizer):
    def __init__(self, weights, lr: float, momentum: float = 0.95):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                mean = state.setdefault("mean", torch.zeros_like(weight))
                mean.lerp_(weight.grad, 1 - group["momentum"])
                ahead = weight.grad.lerp(mean, group["momentum"])
                scale = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.add_(orthogonal(ahead), alpha=-group["lr"] * scale)
