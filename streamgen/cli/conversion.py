"""Published weights into stock parts."""

from pathlib import Path

from streamgen.cli.backend import quieten_libraries
from streamgen.cli.facts import facts_of
from streamgen.errors import UsageError
from streamgen.models.checkpoint import read_weights
from streamgen.models.gqa_folder import convert_folder
from streamgen.models.published import text_encoder_from, transformer_from, vae_from

BUILDERS = {"transformer": transformer_from, "vae": vae_from, "text_encoder": text_encoder_from}


def convert_part(source: Path, part: str, place: Path) -> None:
    """Build the stock part from the weights and save it as safetensors with its configuration."""
    BUILDERS[part](read_weights(source)).save_pretrained(place)


def is_language_model(source: Path) -> bool:
    """Whether this is the folder of a transformers language model."""
    config = source / "config.json"
    if not config.is_file():
        return False
    names = facts_of(config).get("architectures") or ()
    return any(name.endswith("ForCausalLM") for name in names)


def convert_heads(source: Path, target: Path, kv_heads: int) -> None:
    """Pool the key heads of a transformers folder into another folder."""
    if not source.is_dir():
        raise UsageError(f"{source} is no folder; --gqa converts the folder of a transformers model.")
    if source.resolve() == target.resolve():
        raise UsageError(f"{source} would be written over itself; give another folder to write into.")
    quieten_libraries()
    convert_folder(source, target, kv_heads)
