"""Memory planning and metrics: they watch a stream and never change a result."""
