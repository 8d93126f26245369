"""A language model out of a folder that goes on from texts, always with the likeliest token, several texts at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

logging.disable_progress_bar()
# Nothing is fetched, and no program that lies in a model's folder runs.
LOCAL = {"local_files_only": True, "trust_remote_code": False}


def load(folder: Path, precision: str, device: Any) -> Any:
    """A model out of its folder, in one of PyTorch's number formats; nothing is fetched."""
    dtype = getattr(torch, precision)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **LOCAL).to(device).eval()
    # Many a model brings settings for random choices along, which greedy generation would complain about.
    ends = model.generation_config.eos_token_id
    first_end = ends[0] if isinstance(ends, list) else ends
    model.generation_config = GenerationConfig(do_sample=False, eos_token_id=ends, pad_token_id=first_end or 0)
    return model


class Model:
    """A model and its tokenizer.

    Arguments:
        folder: both, in Hugging Face's format.
        precision: "float32", "bfloat16" or "float16".
    """

    def __init__(self, folder: Path, precision: str) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = load(folder, precision, self.device)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL, padding_side="left")
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token or self.tokenizer.unk_token

    def too_long(self, prompt: str, tokens: int) -> str:
        """Why a prompt and what shall follow it do not fit into the model; '' where they do."""
        given = len(self.tokenizer(prompt)["input_ids"])
        most = getattr(self.model.config, "max_position_embeddings", None)  # some kinds of models have no such limit
        if most is None or given + tokens <= most:
            return ""
        return f"The prompt has {given} tokens and max_tokens is {tokens}; this model holds {most} together."

    def complete(self, prompts: Sequence[str], tokens: Sequence[int]) -> list[tuple[str, int, int, bool]]:
        """For each prompt the text that follows, the tokens of both, and whether the model ended it by itself.

        Arguments:
            tokens: how many each text gets at most. The longest decides how long the batch is computed.
        """
        # Shorter prompts are filled up on the left, where the attention mask hides it: all texts end at the same place.
        inputs = self.tokenizer(list(prompts), padding=len(prompts) > 1, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            found = self.model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=max(tokens)
            )
        start = inputs["input_ids"].shape[1]
        given = inputs["attention_mask"].sum(dim=1).tolist()
        rows = found[:, start:].tolist()
        return [self._text(row[:most], count) for row, most, count in zip(rows, tokens, given, strict=True)]

    def _text(self, row: list[int], prompt_tokens: int) -> tuple[str, int, int, bool]:
        ends = self.model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends}
        length = next((place for place, token in enumerate(row) if token in ends), len(row))
        text = self.tokenizer.decode(row[:length], skip_special_tokens=True)
        return text, prompt_tokens, length, length < len(row)
