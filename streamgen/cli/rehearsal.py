"""A request played through on the meta device: everything is built as for real, and no byte is held.

Shapes: C latent channels, F latent frames, h and w latent size, N text rows.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import init_empty_weights
from torch import Tensor, nn

from streamgen.kv.arena import Arena, format_bytes
from streamgen.kv.pool import PagePool
from streamgen.models.loading import (
    has_config_of,
    load_text_encoder,
    load_tokenizer,
    load_transformer,
    load_vae,
)
from streamgen.models.umt5 import TextEncoder
from streamgen.models.wan import CausalWan
from streamgen.models.wan_vae import StreamingVAE, VaeState
from streamgen.pipelines.parts import VideoParts, refuse_parts, tell_unknown
from streamgen.pipelines.settings import VideoSettings
from streamgen.pipelines.video import VideoPipeline
from streamgen.pipelines.world import WorldPipeline
from streamgen.pipelines.world_parts import WorldParts
from streamgen.pipelines.world_settings import WorldSettings
from streamgen.runtime.memory import Share, cache_pool, text_memory, weights_of

if TYPE_CHECKING:
    from streamgen.cli.request import Request
    from streamgen.cli.world_request import WorldWish

META = "meta"
NOT_COUNTED = "activations of one forward, and what torch itself takes"


class _Mute(TextEncoder):
    """Counts tokens and knows its words, but reads nothing."""

    width = 0  # of a row; set to what the model reads
    dtype = torch.float32

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        return torch.empty(*ids.shape, self.width, dtype=self.dtype, device=META)


def rehearse(request: "Request", dtype: torch.dtype) -> dict[str, object]:
    """What the request settles to, and the bytes that each part of it will hold."""
    parts = hollow_parts(request.folder, request.settings, request.device, request.attention, dtype)
    pipeline = VideoPipeline(parts)
    wish = pipeline.request(
        request.prompt,
        frames=request.frames,
        seed=request.seed,
        size=request.size,
        steps=request.steps,
        window=request.window,
        sink=request.sink,
        prompt_at=tuple(request.prompts.items()),
    )
    with pipeline.open(wish) as session:
        shares = shares_of(parts, request.folder, session.pool, session.latent_size, session.vae_state)
    return _record(wish, shares)


def rehearse_world(wish: "WorldWish", dtype: torch.dtype) -> dict[str, object]:
    """The same of a world; its start picture takes no room of its own."""
    place, settings = wish.place, WorldSettings.load(wish.place.folder)
    video = hollow_parts(place.folder, settings.video, place.device, place.attention, dtype)
    parts = WorldParts(place.model, video, settings.actions)
    pipeline = WorldPipeline(parts)
    session = pipeline.start(
        wish.prompt,
        seed=wish.seed,
        size=wish.size,
        steps=wish.steps,
        window=wish.window,
        sink=wish.sink,
        undo=1,
    )
    with session:
        size, pool = parts.latent_size(session.request), session.memory.cache.pool
        shares = shares_of(video, place.folder, pool, size, session.moment.vae)
    return _record(session.request, shares)


def _record(settled: Any, shares: Sequence[Share]) -> dict[str, object]:
    total = sum(share.nbytes for share in shares)
    return {
        "size": list(settled.size),
        "steps": list(settled.steps),
        "window": settled.window,
        "sink": settled.sink,
        "memory": {
            **{share.what: share.record() for share in shares},
            "total": {"bytes": total, "readable": format_bytes(total), "not counted": NOT_COUNTED},
        },
    }


def hollow_parts(
    folder: Path, settings: VideoSettings, device: str | None, attention: str, dtype: torch.dtype
) -> VideoParts:
    """Every part of a checkpoint without its weights, and an arena of no bytes."""
    from diffusers import AutoencoderKLWan, WanTransformer3DModel

    refuse_parts(device or "cpu", dtype, attention, Arena(device=device or "cpu"))
    transformer = _hollow(WanTransformer3DModel, folder / "transformer", dtype, load_transformer)
    vae = _hollow(AutoencoderKLWan, folder / "vae", dtype, load_vae)
    text = _Mute(load_tokenizer(folder / "tokenizer"), None, settings.text_length, tell_unknown)
    text.width, text.dtype = transformer.config.text_dim, dtype
    arena = Arena(device=META)
    return VideoParts(CausalWan(transformer), StreamingVAE(vae), text, settings, attention, arena)


def _hollow(stock: Any, path: Path, dtype: torch.dtype, load: Any) -> Any:
    """The part without its weights; published files tell their sizes only by being read."""
    if not has_config_of(path, stock):
        return load(path, dtype).to(META)
    with init_empty_weights():
        model = stock.from_config(stock.load_config(path))
    kept = set(stock._keep_in_fp32_modules or ())  # loading casts all but these
    for name, weight in model.named_parameters():
        weight.data = weight.data.to(torch.float32 if kept & set(name.split(".")) else dtype)
    return model


def _hollow_encoder(path: Path, dtype: torch.dtype) -> nn.Module:
    """The same of the text encoder; what is read is not moved, which would part its shared tensors."""
    from transformers import AutoConfig, UMT5EncoderModel

    if not has_config_of(path, UMT5EncoderModel):
        read: nn.Module = load_text_encoder(path, dtype)
        return read
    with init_empty_weights():
        model = UMT5EncoderModel._from_config(AutoConfig.from_pretrained(path), dtype=dtype)
    model.tie_weights()
    return model


def shares_of(
    parts: VideoParts, folder: Path, pool: PagePool, size: tuple[int, int], state: VaeState
) -> list[Share]:
    """What one stream holds: weights, its pool, its text and its decoder."""
    model, bytes_each = parts.model, parts.model.dtype.itemsize
    encoder = _hollow_encoder(folder / "text_encoder", model.dtype)
    held = {"transformer": model.transformer, "vae": parts.vae.vae, "text_encoder": encoder}
    weights = [weights_of(part, name) for name, part in held.items()]
    pages = pool.lease.nbytes // pool.geometry.page_bytes
    text = text_memory(model.layers, model.heads, model.head_dim, parts.settings.text_length, bytes_each)
    return [*weights, cache_pool(pool.geometry, pages), text, _decoder(parts.vae, size, state)]


def _decoder(vae: StreamingVAE, size: tuple[int, int], state: VaeState) -> Share:
    """The decoder's memory, by decoding two latent frames of nothing."""
    _, state = vae.decode(torch.empty(1, vae.channels, 2, *size, device=META), state)
    return Share("decoder", state.nbytes, "the last frames that each of its convolutions has seen")
