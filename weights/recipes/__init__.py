"""Recipes: how the bundled checkpoints were made. They run by hand; nothing in `streamgen/` imports them."""
