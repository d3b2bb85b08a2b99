"""Stock models that stream: adapters over diffusers and transformers classes; they know no cache."""
