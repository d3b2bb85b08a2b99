"""Published weights into stock parts."""

from pathlib import Path

from streamgen.models.checkpoint import read_weights
from streamgen.models.published import text_encoder_from, transformer_from, vae_from

BUILDERS = {"transformer": transformer_from, "vae": vae_from, "text_encoder": text_encoder_from}


def convert_part(source: Path, part: str, place: Path) -> None:
    """Build the stock part from the weights and save it as safetensors with its configuration."""
    BUILDERS[part](read_weights(source)).save_pretrained(place)
