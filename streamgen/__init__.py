"""streamgen gives stock diffusers and transformers models a streaming memory."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamgen.errors import StreamgenError as StreamgenError
    from streamgen.kv.arena import Arena as CachePool
    from streamgen.kv.hierarchical import Hierarchical as Hermes
    from streamgen.pipelines.image import ImagePipeline as ImagePipeline
    from streamgen.pipelines.text import TextPipeline as TextPipeline
    from streamgen.pipelines.video import Chunk as Chunk
    from streamgen.pipelines.video import VideoPipeline as VideoPipeline
    from streamgen.pipelines.videoqa import VideoQAPipeline as VideoQAPipeline
    from streamgen.pipelines.world import WorldPipeline as WorldPipeline

__version__ = "0.1.0"
__all__ = [
    "CachePool",
    "Chunk",
    "Hermes",
    "ImagePipeline",
    "StreamgenError",
    "TextPipeline",
    "VideoPipeline",
    "VideoQAPipeline",
    "WorldPipeline",
    "__version__",
]

# Loaded on first use: `streamgen --help` must not wait for torch.
_HOMES = {
    "CachePool": ("streamgen.kv.arena", "Arena"),
    "Chunk": ("streamgen.pipelines.video", "Chunk"),
    "Hermes": ("streamgen.kv.hierarchical", "Hierarchical"),
    "ImagePipeline": ("streamgen.pipelines.image", "ImagePipeline"),
    "StreamgenError": ("streamgen.errors", "StreamgenError"),
    "TextPipeline": ("streamgen.pipelines.text", "TextPipeline"),
    "VideoPipeline": ("streamgen.pipelines.video", "VideoPipeline"),
    "VideoQAPipeline": ("streamgen.pipelines.videoqa", "VideoQAPipeline"),
    "WorldPipeline": ("streamgen.pipelines.world", "WorldPipeline"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"streamgen has no {name!r}; its public names are {', '.join(__all__)}.")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
