"""What the JSON files of a checkpoint say, read so that a broken one is named."""

import json
from pathlib import Path
from typing import Any

from streamgen.errors import UsageError

# Files that a model is built by; what else lies in a folder is its owner's.
NAMES = ("*config.json", "streamgen.json", "tokenizer.json", "*.index.json")


def facts_of(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        facts = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}; mend it, or fetch the checkpoint again.") from error
    if not isinstance(facts, dict):
        raise UsageError(f"{path} holds no JSON object; mend it, or fetch the checkpoint again.")
    return facts


def refuse_broken(checkpoint: Path) -> None:
    """Refuse a checkpoint with a file that cannot be read; libraries would not say which one."""
    if checkpoint.suffix == ".json":
        facts_of(checkpoint)
    for name in NAMES:
        for path in (*checkpoint.glob(name), *checkpoint.glob(f"*/{name}")):
            facts_of(path)


def require_language_model(name: str, folder: Path) -> None:
    """Refuse what is no language model, and say which ones are here."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config = folder if folder.is_file() else folder / "config.json"
    if not config.is_file():
        why = "it has no config.json"
    else:
        kind = str(facts_of(config).get("model_type"))
        if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return
        why = f"the model_type of its config.json is {kind}"
    raise UsageError(
        f"{name} is no plain language model: {why}; give the folder of one, or one of those that "
        f"come with streamgen: {', '.join(_bundled())}."
    )


def _bundled() -> list[str]:
    from streamgen.models.registry import registry

    texts = {
        name: entry.folder for name, entry in registry().items() if entry.facts.get("pipeline") == "text"
    }
    return [name for name, folder in texts.items() if folder and (folder / "config.json").is_file()]
