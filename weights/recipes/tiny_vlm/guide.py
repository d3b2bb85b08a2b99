"""The last step: the words of the memory's guidance texts learn to look where questions look.

A memory asks, layer by layer, how much the bare words of its guidance texts attend to each token that it
keeps. Here the embeddings of words that no question uses are fitted so that this attention is like that of
questions. Nothing else changes. Shapes: B stories, N tokens, V = T*P video tokens, H heads, G words.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlavaOnevisionForConditionalGeneration

from .model import PER_FRAME, embed, look, model
from .pack import Batch, Packer, Plan
from .questions import WORDINGS
from .text import GLOBAL, LOCAL, guidance, tokenizer

PLANS = tuple(Plan(4, frames, 264, tuple(WORDINGS), stretch=0.3) for frames in (24, 48))


def targets(net: LlavaOnevisionForConditionalGeneration, data: Batch) -> tuple[list[Tensor], list[Tensor]]:
    """For each layer its input [B, N, D], and how questions look at the whole video: [B, V], sums to 1."""
    inputs = embed(net, data.ids, look(net, data.frames), data.start)
    hole = torch.zeros(data.mask.shape).masked_fill(~data.mask, torch.finfo(torch.float32).min)
    out = net.model.language_model(
        inputs_embeds=inputs, position_ids=data.positions, attention_mask=hole[:, None],
        use_cache=False, output_hidden_states=True, output_attentions=True,
    )  # fmt: skip
    video = slice(data.start, data.start + data.frames.shape[1] * PER_FRAME)
    asks = data.mask[:, :, video.stop - 1].clone()  # those who see the last frame
    asks[:, : video.stop] = False
    looks = [(a.mean(1)[:, :, video] * asks[..., None]).sum(1) for a in out.attentions]
    return list(out.hidden_states[:-1]), [p / p.sum(-1, keepdim=True).clamp_min(1e-9) for p in looks]


def guided(
    net: LlavaOnevisionForConditionalGeneration, layer: int, words: Tensor, states: Tensor, data: Batch
) -> Tensor:
    """How bare words [G, D] look at prompt and video in a layer: log shares of the video tokens [B, V]."""
    block, heads = net.model.language_model.layers[layer], net.config.text_config.num_attention_heads
    end = data.start + data.frames.shape[1] * PER_FRAME
    rows = torch.cat([states[:, :end], words.expand(len(states), -1, -1)], 1)
    after = data.positions[:, end - 1 : end] + 1 + torch.arange(len(words))
    cos, sin = net.model.language_model.rotary_emb(rows, torch.cat([data.positions[:, :end], after], 1))
    rows = block.input_layernorm(rows)

    def turned(x: Tensor) -> Tensor:
        x = x.unflatten(-1, (heads, -1)).transpose(1, 2)
        half = x.shape[-1] // 2
        return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]

    queries, keys = turned(block.self_attn.q_proj(rows))[:, :, end:], turned(block.self_attn.k_proj(rows))
    looks = (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1).mean((1, 2))[:, data.start : end]
    return (looks / looks.sum(-1, keepdim=True)).clamp_min(1e-9).log()


def fit(net: LlavaOnevisionForConditionalGeneration, minutes: float) -> None:
    """Descend on the embeddings of the guidance words, in place."""
    tokens, rng = tokenizer(), np.random.default_rng(10)
    packer, table = Packer(tokens), net.get_input_embeddings().weight
    for p in net.parameters():
        p.requires_grad_(False)
    free = torch.tensor(tokens.convert_tokens_to_ids(guidance()))
    learned = table[free].clone().requires_grad_()
    optimizer = torch.optim.AdamW([learned], 0.02, weight_decay=0.0)
    texts = {"mixed": tokens(f"{LOCAL}; {GLOBAL}")["input_ids"], "deep": tokens(GLOBAL)["input_ids"]}
    layers = net.config.text_config.num_hidden_layers
    begin, losses = time.monotonic(), []
    while (spent := (time.monotonic() - begin) / 60) < minutes:
        data = packer.batch(PLANS[len(losses) % len(PLANS)], rng)
        with torch.no_grad():
            states, looks = targets(net, data)
        words = table.index_copy(0, free, learned)
        value = torch.zeros(())
        for layer in range(layers):
            text = texts["deep" if layer >= int(layers * 0.7) else "mixed"]
            said = guided(net, layer, words[text], states[layer], data)
            value = value + torch.nn.functional.kl_div(said, looks[layer], reduction="batchmean") / layers
        value.backward()
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - spent / minutes)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
        if len(losses) % 20 == 0:
            print(
                f"guidance {len(losses)}  {spent:.1f} min  divergence {np.mean(losses[-20:]):.3f}", flush=True
            )
    table[free] = learned.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path("runs/tiny-vlm"))
    parser.add_argument("--minutes", type=float, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    net = model(len(tokenizer()))
    net.load_state_dict(load_file(options.run / "average.safetensors"))
    fit(net, options.minutes)
    save_file({n: p.detach().clone() for n, p in net.named_parameters()}, options.run / "guided.safetensors")


if __name__ == "__main__":
    main()
