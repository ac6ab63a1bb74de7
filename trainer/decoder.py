"""A decoder of Qwen3 architecture, in plain PyTorch, with the tensor names of Hugging Face."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tokens import BOS, EOS, PAD, ROWS

THETA = 10_000.0
EPS = 1e-6
CONTEXT = 512


@dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int

    def config(self) -> dict:
        """Hugging Face's `config.json`."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": ROWS,
            "hidden_size": self.hidden,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "head_dim": self.head_dim,
            "attention_bias": False,
            "num_key_value_heads": self.kv_heads,
            "max_position_embeddings": CONTEXT,
            "sliding_window": None,
            "max_window_layers": self.layers,
            "tie_word_embeddings": True,
            "rope_theta": THETA,
            "rms_norm_eps": EPS,
            "use_sliding_window": False,
            "hidden_act": "silu",
            "torch_dtype": "bfloat16",
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
        }


SHAPES = {
    "small": Shape(hidden=128, layers=2, heads=4, kv_heads=2, head_dim=32, feed_forward=512),
    "middle": Shape(hidden=128, layers=2, heads=4, kv_heads=2, head_dim=32, feed_forward=512),
    "large": Shape(hidden=256, layers=6, heads=4, kv_heads=2, head_dim=64, feed_forward=768),
}


class Norm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, EPS)


def rotate(x: Tensor, start: int) -> Tensor:
    """Rotary positions, the halves of a head forming pairs; x is [batch, heads, tokens, head_dim]."""
    tokens, width = x.shape[-2:]
    frequency = THETA ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angle = torch.arange(start, start + tokens, dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    low, high = x.chunk(2, dim=-1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, queries, bias=False)
        self.k_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.v_proj = nn.Linear(shape.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, shape.hidden, bias=False)
        self.q_norm = Norm(shape.head_dim)
        self.k_norm = Norm(shape.head_dim)

    def forward(self, x: Tensor, seen: list[Tensor] | None) -> Tensor:
        batch, tokens, _ = x.shape
        split = lambda y, heads: y.view(batch, tokens, heads, self.shape.head_dim).transpose(1, 2)
        start = seen[0].shape[2] if seen else 0
        q = rotate(self.q_norm(split(self.q_proj(x), self.shape.heads)), start)
        k = rotate(self.k_norm(split(self.k_proj(x), self.shape.kv_heads)), start)
        v = split(self.v_proj(x), self.shape.kv_heads)
        if seen is not None:
            if seen:
                k, v = torch.cat([seen[0], k], dim=2), torch.cat([seen[1], v], dim=2)
            seen[:] = [k, v]
        groups = self.shape.heads // self.shape.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        # Later feeds are single tokens, which see all that is there.
        y = F.scaled_dot_product_attention(q, k, v, is_causal=start == 0)
        return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = Norm(shape.hidden)
        self.post_attention_layernorm = Norm(shape.hidden)

    def forward(self, x: Tensor, seen: list[Tensor] | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.embed_tokens = nn.Embedding(ROWS, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)


class Decoder(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.model = Trunk(shape)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    weight.data /= (2 * shape.layers) ** 0.5

    def forward(self, ids: Tensor, seen: list[list[Tensor]] | None = None) -> Tensor:
        """The logits at every position. `seen`, one list a layer, empty at first, keeps keys and values."""
        x = self.model.embed_tokens(ids)
        for place, layer in enumerate(self.model.layers):
            x = layer(x, seen[place] if seen is not None else None)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)
