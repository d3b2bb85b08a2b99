"""The products: where models, memory and kernels meet."""
