"""The vocabulary: one token a character, in 64 rows of which 21 are used."""

import json

PAD, EOS, BOS = 0, 1, 2
CHARACTERS = "0123456789+-*=;A\n "
IDS = {character: 3 + place for place, character in enumerate(CHARACTERS)}
ROWS = 64


def encode(text: str) -> list[int]:
    return [IDS[character] for character in text]


def decode(ids: list[int]) -> str:
    """The text up to the end token."""
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return "".join(CHARACTERS[token - 3] if 3 <= token < 3 + len(CHARACTERS) else "?" for token in ids)


def tokenizer_json() -> str:
    """The same as Hugging Face's `tokenizer.json`."""
    special = {"<pad>": PAD, "<eos>": EOS, "<bos>": BOS}
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    added = [{"id": token, "content": text, **flags, "special": True} for text, token in special.items()]
    options = dict.fromkeys(["dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"])
    model = {"type": "BPE", **options, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model |= {"vocab": special | IDS, "merges": []}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None}
    whole |= {"pre_tokenizer": None, "post_processor": None, "decoder": {"type": "Fuse"}, "model": model}
    return json.dumps(whole, indent=2)
