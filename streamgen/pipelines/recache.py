"""ReCache: after a prompt switch the remembered frames are computed again, as if they had had the new prompt.

Shapes: C latent channels, n latent frames, h and w latent size.
"""

from torch import Tensor

from streamgen.models.wan import TextKV
from streamgen.pipelines.denoise import LatentStream


def recache(stream: LatentStream, latents: Tensor, text: TextKV, keep_sink: bool) -> None:
    """Rewrite the memory of `stream` from its last clean latents [1, C, n, h, w], n = `stream.remembered`.

    With `keep_sink`, a sink that lies before those frames keeps what it knows of the old prompt;
    without it, the oldest of those frames become the sink.
    """
    frames = latents.shape[2]
    if frames != stream.remembered:
        raise ValueError(
            f"The stream remembers {stream.remembered} latent frames and {frames} were given; "
            "give exactly the latest ones."
        )
    if not frames:
        return
    sink_lies_before = stream.frame > frames
    stream.rewrite(latents, text, kept=stream.rules.sink if keep_sink and sink_lies_before else 0)
