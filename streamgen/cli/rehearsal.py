"""A request played through on the meta device: everything is built as for real, and no byte is held.

Only files of a published layout, which tell their sizes by being read, are read and let go.

Shapes: C latent channels, F latent frames, h and w latent size, N text rows.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import init_empty_weights
from torch import Tensor

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
    return _cast(model, dtype, stock._keep_in_fp32_modules or ())


def _cast(model: Any, dtype: torch.dtype, kept: Iterable[str]) -> Any:
    """As loading casts: all but the modules that are kept in float32."""
    for name, weight in model.named_parameters():
        weight.data = weight.data.to(dtype if set(kept).isdisjoint(name.split(".")) else torch.float32)
    return model


def encoder_weights(path: Path, dtype: torch.dtype) -> Share:
    """Of the text encoder. What is read is not moved, which would part its shared tensors, and is let go."""
    from transformers import AutoConfig, UMT5EncoderModel

    if not has_config_of(path, UMT5EncoderModel):
        return weights_of(load_text_encoder(path, dtype), path.name)
    with init_empty_weights():
        model = UMT5EncoderModel(AutoConfig.from_pretrained(path))
    model.tie_weights()
    kept = model._keep_in_fp32_modules if dtype == torch.float16 else ()  # transformers' rule
    return weights_of(_cast(model, dtype, kept), path.name)


def shares_of(
    parts: VideoParts, folder: Path, pool: PagePool, size: tuple[int, int], state: VaeState
) -> list[Share]:
    """What one stream holds: weights, its pool, its text and its decoder."""
    model, bytes_each = parts.model, parts.model.dtype.itemsize
    weights = [
        weights_of(model.transformer, "transformer"),
        weights_of(parts.vae.vae, "vae"),
        encoder_weights(folder / "text_encoder", model.dtype),
    ]
    pages = pool.lease.nbytes // pool.geometry.page_bytes
    text = text_memory(model.layers, model.heads, model.head_dim, parts.settings.text_length, bytes_each)
    return [*weights, cache_pool(pool.geometry, pages), text, _decoder(parts.vae, size, state)]


def _decoder(vae: StreamingVAE, size: tuple[int, int], state: VaeState) -> Share:
    """The decoder's memory, by decoding two latent frames of nothing."""
    _, state = vae.decode(torch.empty(1, vae.channels, 2, *size, device=META), state)
    return Share("decoder", state.nbytes, "the last frames that each of its convolutions has seen")
