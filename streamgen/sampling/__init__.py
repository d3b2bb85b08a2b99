"""Samplers as pure functions: flow schedules and the noise of a stream."""
