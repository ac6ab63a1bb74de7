"""The task of the embedded models: four kinds of problem, each with its work written out.

All numbers have two digits and all arithmetic is modulo 100. An answer is the work, `A` and the result:

    chain   23*03-98-37*05=   23*03=69;69-98=71;71-37=34;34*05=70;A70     left to right
    turns   *03+17;25=        75;92;76;93;79;A96                          two operations in turn, from 25
    sums    +12;37=           49;86;35;21;56;A77                          the sum of the last two
    sort    47;12;93;05=      05;12;47;93;93-05=88;A88                    sorted, then the range

`chain` copies much and calculates little; in `turns` and `sums` two of three tokens are calculated, and `turns` needs
the position to know which operation is due; `sort` compares. So the tokens on which models of different size differ
are neither all alike nor all in one place.
"""

import random
from typing import NamedTuple

KINDS = ("chain", "turns", "sums", "sort")
TERMS = 6


class Problem(NamedTuple):
    kind: str
    prompt: str
    worked: str

    @property
    def answer(self) -> str:
        return self.worked[-2:]


def apply(left: int, operation: str, right: int) -> int:
    result = {"+": left + right, "-": left - right, "*": left * right}[operation]
    return result % 100


def operation(draw: random.Random) -> tuple[str, int]:
    """One of + and - (two fifths each, operand 0 to 99) and * (one fifth, operand 2 to 9)."""
    symbol = draw.choice("++--*")
    return symbol, draw.randint(2, 9) if symbol == "*" else draw.randrange(100)


def result(terms: list[int]) -> str:
    return "".join(f"{term:02};" for term in terms[:-1]) + f"A{terms[-1]:02}"


def chain(draw: random.Random) -> tuple[str, str]:
    value = draw.randrange(100)
    prompt, work = f"{value:02}", ""
    for _ in range(4):
        symbol, operand = operation(draw)
        after = apply(value, symbol, operand)
        prompt += f"{symbol}{operand:02}"
        work += f"{value:02}{symbol}{operand:02}={after:02};"
        value = after
    return f"{prompt}=", f"{work}A{value:02}"


def turns(draw: random.Random) -> tuple[str, str]:
    operations = operation(draw), operation(draw)
    value = draw.randrange(100)
    prompt = "".join(f"{symbol}{operand:02}" for symbol, operand in operations) + f";{value:02}="
    terms = []
    for turn in range(TERMS):
        value = apply(value, *operations[turn % 2])
        terms.append(value)
    return prompt, result(terms)


def sums(draw: random.Random) -> tuple[str, str]:
    first, second = draw.randrange(100), draw.randrange(100)
    terms = [first, second]
    while len(terms) < TERMS + 2:
        terms.append(apply(terms[-2], "+", terms[-1]))
    return f"+{first:02};{second:02}=", result(terms[2:])


def sort(draw: random.Random) -> tuple[str, str]:
    terms = [draw.randrange(100) for _ in range(4)]
    ordered = sorted(terms)
    low, high = ordered[0], ordered[-1]
    work = "".join(f"{term:02};" for term in ordered) + f"{high:02}-{low:02}={high - low:02};"
    return ";".join(f"{term:02}" for term in terms) + "=", f"{work}A{high - low:02}"


MAKE = {"chain": chain, "turns": turns, "sums": sums, "sort": sort}


def problem(kind: str, draw: random.Random) -> Problem:
    return Problem(kind, *MAKE[kind](draw))


def held_out(each: int, seed: int) -> list[Problem]:
    """`each` problems of every kind, all different, in an order that mixes the kinds."""
    draw = random.Random(seed)
    found: dict[str, Problem] = {}
    for _ in range(each):
        for kind in KINDS:
            made = problem(kind, draw)
            while made.prompt in found:
                made = problem(kind, draw)
            found[made.prompt] = made
    return list(found.values())
