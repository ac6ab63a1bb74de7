"""Trains one of the embedded models: `python train.py small`. The same seed and number of threads give the same file.

The rate is constant, then falls linearly to zero in the last part of the steps. So a run that is resumed with more
steps, before its rate began to fall, is the same as one that was begun with them.
"""

import argparse
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from decoder import SHAPES, Decoder
from export import export, load
from greedy import accuracy
from muon import Muon
from problems import Problem, held_out, problem
from tokens import BOS, EOS, encode

# Problems of each kind in a step: the larger the model, the fewer, so that its step does not take longer.
MIX = {
    "small": {"chain": 24, "turns": 28, "sums": 20, "sort": 16},
    "middle": {"chain": 24, "turns": 28, "sums": 20, "sort": 16},
    "large": {"chain": 12, "turns": 16, "sums": 11, "sort": 9},
}
STEPS = {"small": 290, "middle": 900, "large": 1000}
SEED = {"small": 1, "middle": 2, "large": 3}
MUON_RATE = 0.02
ADAM_RATE = 3e-3
WARM_UP = 20
# The part of the steps in which the rate falls.
FALL = 0.35
HELD_OUT_SEED = 2026
HELD_OUT_EACH = 250


def batch(kind: str, count: int, draw: random.Random, forbidden: set[str]) -> tuple[torch.Tensor, int]:
    """Token ids [problems, tokens], and how many of the first are the prompt. Problems of a kind have one length."""
    made: list[Problem] = []
    while len(made) < count:
        candidate = problem(kind, draw)
        if candidate.prompt not in forbidden:
            made.append(candidate)
    rows = [[BOS, *encode(each.prompt + each.worked), EOS] for each in made]
    return torch.tensor(rows), 1 + len(made[0].prompt)


def rate(step: int, steps: int) -> float:
    fall = int(steps * FALL)
    return min((step + 1) / WARM_UP, 1.0, (steps - step) / fall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the model and its checkpoint")
    parser.add_argument("--steps", type=int, help="instead of the number in STEPS")
    parser.add_argument("--start", type=Path, help="folder of a model to go on from, instead of random weights")
    parser.add_argument("--scale", type=float, default=1.0, help="of both learning rates; below 1 with --start")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED[args.model])
    steps = args.steps or STEPS[args.model]
    folder = args.out / args.model
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.pt"

    held = held_out(HELD_OUT_EACH, HELD_OUT_SEED)
    forbidden = {each.prompt for each in held}
    draw = random.Random(SEED[args.model])
    decoder = load(args.start, args.model).train() if args.start else Decoder(SHAPES[args.model])
    matrices = [w for name, w in decoder.named_parameters() if w.dim() == 2 and "embed" not in name]
    others = [w for name, w in decoder.named_parameters() if w.dim() != 2 or "embed" in name]
    optimizers = [
        Muon(matrices, lr=MUON_RATE),
        torch.optim.Adam(others, lr=ADAM_RATE, betas=(0.9, 0.95)),
    ]
    first, tokens = 0, 0
    if args.resume:
        saved = torch.load(checkpoint)
        decoder.load_state_dict(saved["decoder"])
        for optimizer, state in zip(optimizers, saved["optimizers"]):
            optimizer.load_state_dict(state)
        state = saved["draw"]
        draw.setstate((state[0], tuple(state[1]), state[2]))
        first, tokens = saved["step"], saved["tokens"]

    began = time.process_time()
    for step in range(first, steps):
        now = rate(step, steps)
        for optimizer, top in zip(optimizers, (MUON_RATE, ADAM_RATE)):
            optimizer.param_groups[0]["lr"] = top * now * args.scale
            optimizer.zero_grad()
        batches = {kind: batch(kind, count, draw, forbidden) for kind, count in MIX[args.model].items()}
        total = sum(ids[:, prompt:].numel() for ids, prompt in batches.values())
        losses = {}
        for kind, (ids, prompt) in batches.items():
            # Only the answer is learnt: prompts are drawn evenly, so nothing can be known about them.
            logits = decoder(ids[:, :-1])[:, prompt - 1 :]
            target = ids[:, prompt:]
            loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="sum")
            (loss / total).backward()
            losses[kind] = loss.item() / target.numel()
            tokens += ids.numel()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for optimizer in optimizers:
            optimizer.step()
        if (step + 1) % 20 == 0 or step + 1 == steps:
            each = "  ".join(f"{kind} {loss:.4f}" for kind, loss in losses.items())
            print(f"step {step + 1}  {each}  tokens {tokens}  cpu {time.process_time() - began:.0f} s", flush=True)
        if (step + 1) % 50 == 0 or step + 1 == steps:
            saved = {"decoder": decoder.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}
            saved |= {"step": step + 1, "tokens": tokens, "draw": draw.getstate()}
            torch.save(saved, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)
            print("held out:", accuracy(decoder, held[:200]), flush=True)
    export(decoder, args.model, folder)


if __name__ == "__main__":
    main()
