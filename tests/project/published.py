"""The configuration of published models, without their weights: what `streamgen plan` needs."""

import json
import shutil
from pathlib import Path


def self_forcing(folder: str | Path) -> None:
    """Wan2.1-T2V-1.3B with the settings of Self-Forcing, as a checkpoint folder."""
    from transformers import UMT5Config

    from streamgen.models.registry import resolve

    where = Path(folder)
    shutil.copytree(
        resolve("tiny-video") / "tokenizer", where / "tokenizer"
    )  # a smaller one: no bytes depend on it
    parts = {
        "transformer": {
            "_class_name": "WanTransformer3DModel",
            **dict(num_attention_heads=12, attention_head_dim=128, num_layers=30, ffn_dim=8960),
            **dict(in_channels=16, out_channels=16, text_dim=4096, freq_dim=256, patch_size=[1, 2, 2]),
        },
        "vae": {"_class_name": "AutoencoderKLWan"},
        "text_encoder": UMT5Config(
            architectures=["UMT5EncoderModel"],
            **dict(vocab_size=256384, d_model=4096, d_kv=64, d_ff=10240, num_heads=64, num_layers=24),
        ).to_dict(),
    }
    for part, facts in parts.items():
        (where / part).mkdir(parents=True, exist_ok=True)
        (where / part / "config.json").write_text(json.dumps(facts))
    (where / "streamgen.json").write_text(
        json.dumps(
            {
                **dict(pipeline="video", fps=16, size=[832, 480], chunk=3, window=21, sink=0),
                **dict(independent_first_frame=False, context_noise=0, shift=5.0, warp=True),
                **dict(steps=[1000, 750, 500, 250], prediction="flow_prediction", sampler="renoise"),
                **dict(planes=[], text_length=512, positions="absolute"),
            }
        )
    )
