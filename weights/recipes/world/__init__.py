"""One procedural world, shared by the recipes of every bundled checkpoint that shows or watches it."""
