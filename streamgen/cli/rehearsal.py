"""A request played through on the meta device: everything is built as for real, and no byte is held.

Shapes: C latent channels, F latent frames, h and w latent size, N text rows.
"""

from typing import TYPE_CHECKING, Any

import torch
from accelerate import init_empty_weights
from torch import Tensor

from streamgen.kv.arena import Arena, format_bytes
from streamgen.models.loading import load_tokenizer, load_transformer, load_vae
from streamgen.models.umt5 import TextEncoder
from streamgen.models.wan import CausalWan
from streamgen.models.wan_vae import StreamingVAE
from streamgen.pipelines.parts import VideoParts, refuse_parts, tell_unknown
from streamgen.pipelines.session import VideoSession
from streamgen.pipelines.video import VideoPipeline
from streamgen.runtime.memory import Share, cache_pool, text_memory, weights_of

if TYPE_CHECKING:
    from streamgen.cli.request import Request

META = "meta"
NOT_COUNTED = "activations of one forward, and what torch itself takes"


class _Mute(TextEncoder):
    """Counts tokens and knows its words, but reads nothing."""

    def embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        return torch.empty(*ids.shape, 0, device=META)


def rehearse(request: "Request", dtype: torch.dtype) -> dict[str, object]:
    """What the request settles to, and the bytes that each part of it will hold."""
    device = request.device or "cpu"
    refuse_parts(device, dtype, request.attention, Arena(device=device))
    pipeline = VideoPipeline(_parts(request, dtype))
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
        shares = _shares(request, session, dtype)
    total = sum(share.nbytes for share in shares)
    return {
        "size": list(wish.size),
        "steps": list(wish.steps),
        "window": wish.window,
        "sink": wish.sink,
        "memory": {
            **{share.what: share.record() for share in shares},
            "total": {"bytes": total, "readable": format_bytes(total), "not counted": NOT_COUNTED},
        },
    }


def _parts(request: "Request", dtype: torch.dtype) -> VideoParts:
    from diffusers import AutoencoderKLWan, WanTransformer3DModel

    folder = request.folder
    transformer = _hollow(WanTransformer3DModel, folder / "transformer", dtype, load_transformer)
    vae = _hollow(AutoencoderKLWan, folder / "vae", dtype, load_vae)
    settings = request.settings
    text = _Mute(load_tokenizer(folder / "tokenizer"), None, settings.text_length, tell_unknown)
    arena = Arena(device=META)
    return VideoParts(CausalWan(transformer), StreamingVAE(vae), text, settings, request.attention, arena)


def _hollow(stock: Any, path: Any, dtype: torch.dtype, load: Any) -> Any:
    """The part without its weights; published files tell their sizes only by being read."""
    if not (path / "config.json").is_file():
        return load(path, dtype).to(META)
    with init_empty_weights():
        return stock.from_config(stock.load_config(path)).to(dtype)


def _shares(request: "Request", session: VideoSession, dtype: torch.dtype) -> list[Share]:
    model, folder = session.parts.model, request.folder
    parts = [weights_of(folder / name, dtype.itemsize) for name in ("transformer", "vae", "text_encoder")]
    pages = session.pool.lease.nbytes // session.pool.geometry.page_bytes
    cache = cache_pool(session.pool.geometry, pages)
    rows = request.settings.text_length
    text = text_memory(model.layers, model.heads, model.head_dim, rows, dtype.itemsize)
    return [*parts, cache, text, _decoder(session)]


def _decoder(session: VideoSession) -> Share:
    """The decoder's memory, by decoding two latent frames of nothing."""
    vae = session.parts.vae
    latents = torch.empty(1, vae.channels, 2, *session.latent_size, device=META)
    _, state = vae.decode(latents, session.vae_state)
    return Share("decoder", state.nbytes, "the last frames that each of its convolutions has seen")
