"""A folder of a stock transformers model, converted to grouped queries into another folder."""

import json
import shutil
from pathlib import Path
from typing import Any

from streamgen.errors import UsageError
from streamgen.models.gqa import refuse_heads, to_grouped_query
from streamgen.models.published import refuse_misfits

WEIGHT_FILES = (".safetensors", ".bin", ".pt", ".pth", ".index.json")


def convert_folder(source: Path, target: Path, kv_heads: int) -> None:
    """Write the model with its tokenizer and everything else; the target appears when it is whole."""
    from transformers import AutoConfig

    stock = stock_class(source)
    config = AutoConfig.from_pretrained(source, local_files_only=True).get_text_config(decoder=True)
    refuse_heads(getattr(config, "num_key_value_heads", None), kv_heads, stock.__name__)
    converted = to_grouped_query(load_stock(source), kv_heads)
    draft = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        converted.save_pretrained(draft)
        for path in sorted(source.iterdir()):
            if path.is_file() and not path.name.endswith(WEIGHT_FILES) and not (draft / path.name).exists():
                shutil.copy2(path, draft / path.name)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def stock_class(folder: Path) -> Any:
    """The transformers class that a folder names."""
    import transformers

    path = folder / "config.json"
    if not path.is_file():
        raise UsageError(f"{folder} has no config.json; give the folder of a transformers model.")
    names = json.loads(path.read_text(encoding="utf-8")).get("architectures") or ["nothing"]
    stock = getattr(transformers, names[0], None)
    if stock is None:
        raise UsageError(f"{path} names {names[0]} as its class, and transformers has none such; mend it.")
    return stock


def load_stock(folder: Path) -> Any:
    """The model that a transformers folder describes, in its own type; every key has to fit."""
    stock = stock_class(folder)
    model, info = stock.from_pretrained(
        folder, dtype="auto", local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    refuse_misfits(
        f"the {stock.__name__} that {folder} describes",
        missing=info["missing_keys"],
        unknown=info["unexpected_keys"],
        misshapen=[str(name) for name in info["mismatched_keys"]],
    )
    return model.requires_grad_(False).eval()
