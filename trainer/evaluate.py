"""Measures the models of a folder on held-out problems and writes the file that comes with them.

Weights are bf16 as they are served, arithmetic is f32. The texts are the reference of the host's own decoder, so nothing
of the host takes part in making them.
"""

import argparse
import json
from pathlib import Path

import torch

from decoder import SHAPES
from export import load
from greedy import answers
from problems import KINDS, held_out
from train import HELD_OUT_EACH, HELD_OUT_SEED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="has a folder for each model")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--out", type=Path, help="write the first 300 problems with the texts of small and large")
    args = parser.parse_args()
    torch.set_num_threads(1)
    problems = held_out(HELD_OUT_EACH, HELD_OUT_SEED)
    texts = {name: answers(load(args.folder / name, name), problems) for name in args.models}
    print(f"{'':8}" + "".join(f"{kind:>8}" for kind in (*KINDS, "all")))
    for name, written in texts.items():
        right = [text.endswith("A" + each.answer) for text, each in zip(written, problems)]
        shares = [
            [good for good, each in zip(right, problems) if kind in (each.kind, "all")] for kind in (*KINDS, "all")
        ]
        print(f"{name:8}" + "".join(f"{100 * sum(share) / len(share):7.1f}%" for share in shares))
    if args.out:
        with args.out.open("w") as file:
            for place, each in enumerate(problems[:300]):
                line = {"prompt": each.prompt, "answer": each.answer, "worked": each.worked}
                line |= {f"greedy_{name}": texts[name][place] for name in ("small", "large")}
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
