"""The recipe of the bundled checkpoint `tiny-var`: digits, a small VQ-VAE, a next-scale model, a judge."""
