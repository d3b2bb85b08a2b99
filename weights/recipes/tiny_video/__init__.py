"""The recipe of the bundled checkpoint `tiny-video`: codec, text encoder, causal few-step video model."""
