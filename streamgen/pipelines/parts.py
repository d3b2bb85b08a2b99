"""What the sessions of a causal video model share: loaded once, keeps nothing of any stream."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from streamgen.attention.contract import KernelError
from streamgen.attention.registry import AUTO, named
from streamgen.errors import StreamgenWarning, UsageError
from streamgen.kv.arena import Arena
from streamgen.models.loading import load_text_encoder, load_tokenizer, load_transformer, load_vae
from streamgen.models.umt5 import TextEncoder
from streamgen.models.wan import CausalWan
from streamgen.models.wan_vae import StreamingVAE
from streamgen.pipelines.settings import VideoSettings

DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class VideoParts:
    """What sessions share: models, which keep nothing of a stream, and the budget."""

    model: CausalWan
    vae: StreamingVAE
    text: TextEncoder
    settings: VideoSettings
    attention: str
    arena: Arena


def load_parts(
    folder: Path, settings: VideoSettings, device: str, dtype: torch.dtype, attention: str, arena: Arena
) -> VideoParts:
    """Every part of a checkpoint folder, on its device."""
    transformer = load_transformer(folder / "transformer", dtype).to(device)
    vae = load_vae(folder / "vae", dtype).to(device)
    encoder = load_text_encoder(folder / "text_encoder", dtype).to(device)
    text = TextEncoder(load_tokenizer(folder / "tokenizer"), encoder, settings.text_length, tell_unknown)
    return VideoParts(CausalWan(transformer), StreamingVAE(vae), text, settings, attention, arena)


def refuse_parts(device: str, dtype: torch.dtype, attention: str, memory: Arena) -> None:
    """Refuse, before anything is loaded, what could not run."""
    if dtype not in DTYPES:
        raise UsageError(f"{dtype} is not a dtype for Wan models; choose torch.float32 or torch.bfloat16.")
    if torch.device(memory.device) != torch.device(device):
        raise UsageError(
            f"The memory lies on {memory.device} and the models are to be on {device}; make both the same."
        )
    if attention == AUTO:
        return
    absent = named(attention).absent()
    if absent is not None:
        raise KernelError(f"The kernel {attention!r} was asked for and cannot serve: {absent}")


def tell_unknown(words: list[str]) -> None:
    """Warn of words that the model never met."""
    warnings.warn(
        f"The checkpoint does not know these words and reads past them: {', '.join(words)}.",
        StreamgenWarning,
        stacklevel=2,
    )
