"""DocToLora: a language model that reads a document once and from then on knows it by an adapter.

    reader = DocToLora(model, load_doc_lora(path))
    adapter = reader.internalize(tokenizer, "The castle lies in the north. ...", chunk_tokens=512)
    with applied(model, adapter):
        ...                                 # ask; the document is not in the prompt

Shapes: C chunks, S tokens, L layers, M modules, r rank, z latent size.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from streamgen.errors import UsageError
from streamgen.models.doc_lora_adapter import Adapter
from streamgen.models.doc_lora_chunks import Affixes, document_ids, split
from streamgen.models.doc_lora_encoder import features
from streamgen.models.doc_lora_loading import Loaded, affixes_of
from streamgen.models.rope import reach_of
from streamgen.models.token_ids import token_ids

Read = Callable[[Sequence[int]], list[Tensor]]  # a chunk -> what goes into each layer, [1, S, D]


class DocToLora:
    """A stock causal model and a hypernetwork; the document is read by the layers of the model itself."""

    def __init__(self, model: Any, loaded: Loaded, affixes: Affixes | None = None) -> None:
        if not isinstance(loaded, Loaded):
            raise UsageError(
                f"A {type(loaded).__name__} is no hypernetwork; give what load_doc_lora(path) returns."
            )
        config = loaded.network.config
        decoder = model.get_decoder()
        layers, width = len(decoder.layers), decoder.get_input_embeddings().weight.shape[1]
        if (layers, width) != (config.layers, config.width):
            trained = f"{config.layers} layers of width {config.width}"
            raise UsageError(
                f"This hypernetwork was trained with {loaded.base or 'a model'} of {trained} and the model "
                f"has {layers} layers of width {width}; give the model that belongs to it."
            )
        self.model = model
        self.network = loaded.network
        self.affixes = affixes or affixes_of(loaded)

    def internalize(
        self, tokenizer: Any, document: str, chunk_tokens: int | None = None, **how: Any
    ) -> Adapter:
        """The adapter of a text; see `internalize_ids`."""
        return self.internalize_ids(document_ids(tokenizer, document, self.affixes), chunk_tokens, **how)

    @torch.no_grad()
    def internalize_ids(
        self,
        ids: Sequence[int],
        chunk_tokens: int | None = None,
        scalers: Sequence[float] = (),
        bias: float = 1.0,
        read: Read | None = None,
    ) -> Adapter:
        """The adapter of a document given as tokens, affixes included.

        Without `chunk_tokens` it is read in one piece, as by the published `internalize`. Chunks are read one
        after the other, so memory is that of one. `scalers`, one a chunk, and `bias` weigh them in the sum.
        `read` reads a chunk where the model does not attend by itself, because it streams.
        """
        chunks = split(token_ids(ids, self.model.config.vocab_size), self.affixes, chunk_tokens)
        longest, reach = max(map(len, chunks)), reach_of(self.model.config, type(self.model).__name__)
        if longest > reach.tokens:
            raise UsageError(
                f"{longest} tokens of a document would be read at once and {reach.tokens} are the most "
                f"{reach.why}; give chunk_tokens, at most {reach.tokens} with what stands around a document."
            )
        latents = torch.cat([self._latents(chunk, read or self._read) for chunk in chunks])
        return self.network.combine(self.network.factors(latents), scalers, bias)

    def _latents(self, chunk: Sequence[int], read: Read) -> Tensor:
        """One chunk as latents [1, L, M, r, z]; the layers go through the Perceiver one by one."""
        home = self.network.head.weight.device
        return torch.cat([self.network.latents(layer[:, None].to(home)) for layer in read(chunk)], 1)

    def _read(self, chunk: Sequence[int]) -> list[Tensor]:
        return features(self.model, torch.tensor([list(chunk)], device=self.model.device))
