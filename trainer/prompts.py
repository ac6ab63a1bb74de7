"""Prints problems to train heads on, one JSON object a line; none of them is held out."""

import argparse
import json
import random

from problems import KINDS, held_out, problem
from train import HELD_OUT_EACH, HELD_OUT_SEED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    args = parser.parse_args()
    seen = {each.prompt for each in held_out(HELD_OUT_EACH, HELD_OUT_SEED)}
    draw = random.Random(args.seed)
    printed = 0
    while printed < args.count:
        made = problem(args.kinds[printed % len(args.kinds)], draw)
        if made.prompt not in seen:
            seen.add(made.prompt)
            printed += 1
            print(json.dumps({"prompt": made.prompt, "answer": made.answer}))


if __name__ == "__main__":
    main()
