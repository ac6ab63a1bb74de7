"""Greedy answers, and how many are right."""

from collections import defaultdict

import torch

from decoder import Decoder
from problems import Problem
from tokens import BOS, EOS, decode, encode

LONGEST = 48


@torch.no_grad()
def answers(decoder: Decoder, problems: list[Problem]) -> list[str]:
    """What the model writes after each prompt, up to its end token."""
    found: dict[str, str] = {}
    lengths = defaultdict(list)
    for each in problems:
        lengths[len(each.prompt)].append(each.prompt)
    for prompts in lengths.values():
        feed = torch.tensor([[BOS, *encode(prompt)] for prompt in prompts])
        seen = [[] for _ in decoder.model.layers]
        written = []
        ended = torch.zeros(len(prompts), dtype=torch.bool)
        while len(written) < LONGEST and not ended.all():
            feed = decoder(feed, seen)[:, -1].argmax(-1, keepdim=True)
            written.append(feed)
            ended |= feed[:, 0] == EOS
        texts = torch.cat(written, dim=1).tolist()
        found |= {prompt: decode(ids) for prompt, ids in zip(prompts, texts)}
    return [found[each.prompt] for each in problems]


def accuracy(decoder: Decoder, problems: list[Problem]) -> dict[str, float]:
    """The share of problems with the right final answer, by kind and of all, in percent."""
    right = defaultdict(list)
    for each, text in zip(problems, answers(decoder, problems)):
        good = text.endswith("A" + each.answer)
        right[each.kind].append(good)
        right["all"].append(good)
    return {kind: round(100 * sum(good) / len(good), 1) for kind, good in right.items()}
