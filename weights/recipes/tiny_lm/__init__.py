"""The recipe of `tiny-lm` and its draft: documents of facts about the procedural world, and questions."""
