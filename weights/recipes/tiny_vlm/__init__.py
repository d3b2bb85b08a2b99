"""The recipe of `tiny-vlm`, a small LLaVA-OneVision that answers questions about walks through the world."""
