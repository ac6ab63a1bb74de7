"""Writes a model as a folder in Hugging Face's layout, and reads one."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from decoder import SHAPES, Decoder
from tokens import tokenizer_json


def export(decoder: Decoder, name: str, folder: Path) -> None:
    tensors = {key: weight.to(torch.bfloat16) for key, weight in decoder.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(SHAPES[name].config(), indent=1) + "\n")
    (folder / "tokenizer.json").write_text(tokenizer_json() + "\n")


def load(folder: Path, name: str) -> Decoder:
    """The model as it is served: weights bf16, arithmetic f32."""
    decoder = Decoder(SHAPES[name])
    tensors = load_file(folder / "model.safetensors")
    decoder.load_state_dict({key: weight.float() for key, weight in tensors.items()})
    return decoder.eval()
