"""One stream in one safetensors file, bit for bit.

Shapes: G layers of a page, n tokens, m tokens with a home copy, H kv heads, D head dim; one set a table.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from streamgen.errors import StreamgenError, UsageError
from streamgen.kv.home import Origins, keep_home, no_origins, pristine_keys, with_home
from streamgen.kv.reposition import home_account
from streamgen.kv.retention import KeepAll, Retention, SinkWindow
from streamgen.kv.table import BlockTable, IntArray, Tokens, slots_of, stretch_of
from streamgen.kv.view import write_slots

if TYPE_CHECKING:
    from streamgen.kv.cache import KVCache
    from streamgen.kv.geometry import Geometry
    from streamgen.kv.pool import PagePool

_FORMAT = "streamgen-kv-1"
_RETENTIONS: dict[str, type[KeepAll] | type[SinkWindow]] = {"KeepAll": KeepAll, "SinkWindow": SinkWindow}


class SnapshotError(StreamgenError):
    """A file that is no snapshot, or one of another model."""


def save(cache: "KVCache", path: str | Path) -> None:
    """Write the past of a stream: keys, values, positions, retention, home copies."""
    cache.require_idle("save()")
    tensors: dict[str, Tensor] = {}
    for number, table in enumerate(cache.tables):
        for name, tensor in _table_tensors(cache.pool, table).items():
            tensors[f"{name}.{number}"] = tensor.contiguous()
    retention = cache.retention
    about = {
        "format": _FORMAT,
        "geometry": _shape(cache.pool.geometry),
        "retention": type(retention).__name__,
        "settings": asdict(retention) if isinstance(retention, (KeepAll, SinkWindow)) else {},
        "reserve": cache.reserve,
        "rotated": cache.rotated,
        "name": cache.name,
    }
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={"streamgen": json.dumps(about)})
    os.replace(partial, path)


def load(pool: "PagePool", path: str | Path, retention: Retention | None = None) -> "KVCache":
    """Open the saved stream in a pool of the same model; give `retention` if the saved one was your own."""
    if not Path(path).is_file():
        raise SnapshotError(f"There is no snapshot at {path}.")
    with safe_open(path, framework="pt", device="cpu") as file:
        about = _about(path, file.metadata() or {})
        if about["geometry"] != _shape(pool.geometry):
            raise SnapshotError(
                f"{path} holds {about['geometry']} and {pool.name} is made for {_shape(pool.geometry)}; "
                f"load it into a pool of the model that saved it."
            )
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    kept = retention or _retention(about)
    cache = pool.cache(kept, about["reserve"], about["rotated"], about["name"])
    try:
        _fill(cache, tensors)
    except BaseException:
        cache.close()
        raise
    return cache


def _table_tensors(pool: "PagePool", table: BlockTable) -> dict[str, Tensor]:
    slots = torch.from_numpy(table.slots).to(pool.device)
    tensors = {
        "k": torch.stack([k.index_select(0, slots).cpu() for k, _ in pool.flat]),
        "v": torch.stack([v.index_select(0, slots).cpu() for _, v in pool.flat]),
    }
    if table.stretch is not None:  # the same places in the stretch: sums come out in the same order
        tensors["places"] = torch.from_numpy(table.slots - table.stretch.start)
    if table.positions is not None:
        tensors["positions"] = torch.from_numpy(table.positions)
    origins = table.entries.origins
    if origins is not None:
        index = np.flatnonzero(origins.home >= 0)
        tensors["home_index"] = torch.from_numpy(index)
        tensors["shift"] = torch.from_numpy(origins.shift)
        homes = [pristine_keys(origins, index, layer).cpu() for layer in range(len(pool.flat))]
        tensors["home"] = torch.stack(homes)
    return tensors


def _fill(cache: "KVCache", tensors: Mapping[str, Tensor]) -> None:
    pool = cache.pool
    size = pool.geometry.page_size
    counts = [tensors[f"k.{number}"].shape[1] for number in range(len(cache.tables))]
    if not cache.reserve:
        pool.pages.require(sum(-(-count // size) for count in counts), f"Loading {cache.name}")
    for number, (table, count) in enumerate(zip(cache.tables, counts, strict=True)):
        own = {name.rpartition(".")[0]: tensors[name] for name in tensors if _of(name, number)}
        slots_here, positions = _slots(pool, table, count, own), _array(own, "positions")
        table.entries = Tokens(stretch_of(slots_here), positions, _origins(pool, count, own))
        slots = torch.from_numpy(table.slots).to(pool.device)
        for (k, v), keys, values in zip(pool.flat, own["k"], own["v"], strict=True):
            write_slots(k, slots, keys.to(pool.device))
            write_slots(v, slots, values.to(pool.device))


def _slots(pool: "PagePool", table: BlockTable, count: int, own: Mapping[str, Tensor]) -> IntArray:
    if table.stretch is not None:
        return own["places"].numpy() + table.stretch.start
    table.pages = pool.pages.take(-(-count // table.page_size), table)
    return slots_of(table.pages, table.page_size)[:count]


def _origins(pool: "PagePool", count: int, own: Mapping[str, Tensor]) -> Origins | None:
    if "home" not in own:
        return None
    shift = own["shift"].numpy()
    home = keep_home(own["home"].to(pool.device), pool.arena, home_account(pool))
    origins = with_home(no_origins(count, shift.shape[1:]), own["home_index"].numpy(), home)
    return Origins(origins.homes, origins.home, origins.row, shift)


def _array(own: Mapping[str, Tensor], name: str) -> IntArray | None:
    return own[name].numpy() if name in own else None


def _of(name: str, number: int) -> bool:
    return name.rpartition(".")[2] == str(number)


def _shape(geometry: "Geometry") -> dict[str, int | str]:
    """What must agree; the page size need not."""
    return {
        "layers": geometry.layers,
        "kv_heads": geometry.kv_heads,
        "head_dim": geometry.head_dim,
        "dtype": str(geometry.dtype).removeprefix("torch."),
        "layers_per_page": geometry.layers_per_page,
    }


def _about(path: str | Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    about = json.loads(metadata.get("streamgen", "{}"))
    if about.get("format") != _FORMAT:
        raise SnapshotError(f"{path} is not a snapshot of a stream ({_FORMAT}).")
    return about


def _retention(about: Mapping[str, Any]) -> Retention:
    kind = _RETENTIONS.get(about["retention"])
    if kind is None:
        raise UsageError(
            f"The stream was kept by {about['retention']}; give it again: load(..., retention=...)."
        )
    return kind(**about["settings"])
