"""Our paged attention kernel in Triton; imported only once 'triton' is chosen.

One program looks at BLOCK_Q rows of one kv head of one cache; a row is one query of one of the GROUP query
heads that share the kv head. Keys are found through a table of pages of PAGE tokens (PAGE 1: a table of
slots), and the softmax is kept online, so nothing of the size of the past is ever stored.
Shapes: B caches, Q queries, T staged tokens, M table columns, P pages, Hq, H query and kv heads, D head dim.
"""

import triton
import triton.language as tl


@triton.jit
def paged_attention(  # type: ignore[no-untyped-def]
    out,  # [B, Q, Hq, D]
    q,  # [B, Q, Hq, D]
    k,  # [P * PAGE, H, D], each head's dims in one stretch
    v,
    table,  # int32 [B, M]
    used,  # int32 [B], visible tokens
    tree,  # int8 [B, T, T], which staged token sees which; read under ORDER 2 only
    depth,  # int32 [B, T], how far below the past a node of the tree stands
    windows,  # int32 [B]
    sinks,  # int32 [B]
    scale,
    queries,
    staged,
    columns,
    token_stride,  # of k and v
    head_stride,
    H: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    ORDER: tl.constexpr,  # 0: all see all, 1: causal, 2: a tree
    UPCAST: tl.constexpr,  # the interpreter multiplies bfloat16 wrongly
    BLOCK_Q: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    cache = tl.program_id(2).to(tl.int64)
    length = tl.load(used + cache)
    past = length - staged
    window = tl.load(windows + cache)
    sink = tl.load(sinks + cache)

    row = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    query = row // GROUP
    asked = query < queries
    dim = tl.arange(0, BLOCK_D)
    wide = dim < D
    row_at = ((cache * queries + query) * (H * GROUP) + head * GROUP + row % GROUP) * D
    spot = row_at[:, None] + dim[None, :]
    keep = asked[:, None] & wide[None, :]
    mine = tl.load(q + spot, mask=keep, other=0.0)
    if UPCAST:
        mine = mine.to(tl.float32)

    place = past + query
    if ORDER == 2:
        place = past + tl.load(depth + cache * staged + query, mask=asked, other=0)

    top = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    mixed = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first in range(0, length, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        held = key < length
        page = tl.load(table + cache * columns + key // PAGE, mask=held, other=0).to(tl.int64)
        key_at = (page * PAGE + key % PAGE) * token_stride + head * head_stride
        theirs_at = key_at[:, None] + dim[None, :]
        loaded = held[:, None] & wide[None, :]
        theirs = tl.load(k + theirs_at, mask=loaded, other=0.0)
        worth = tl.load(v + theirs_at, mask=loaded, other=0.0)
        if UPCAST:
            theirs = theirs.to(tl.float32)
            worth = worth.to(tl.float32)

        seen = asked[:, None] & held[None, :]
        if ORDER == 1:
            back = place[:, None] - key[None, :]
            seen = seen & (back >= 0) & ((back < window) | (key < sink)[None, :])
        if ORDER == 2:
            node = key - past
            fresh = held & (node >= 0)
            branch = (cache * staged + query)[:, None] * staged + node[None, :]
            linked = tl.load(tree + branch, mask=asked[:, None] & fresh[None, :], other=1)
            stands = tl.where(fresh, past + tl.load(depth + cache * staged + node, mask=fresh, other=0), key)
            back = place[:, None] - stands[None, :]
            seen = seen & (linked != 0) & ((back < window) | (stands < sink)[None, :])

        score = tl.dot(mine, tl.trans(theirs), input_precision="ieee") * scale
        score = tl.where(seen, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # a row that has seen nothing yet
        weight = tl.exp(score - shift[:, None])
        fade = tl.exp(top - shift)
        total = total * fade + tl.sum(weight, 1)
        mixed = mixed * fade[:, None] + tl.dot(weight.to(worth.dtype), worth, input_precision="ieee")
        top = higher

    answer = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + spot, answer.to(out.dtype.element_ty), mask=keep)
