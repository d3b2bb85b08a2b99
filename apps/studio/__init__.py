"""The studio: streamgen in a browser, served by one process on one port. `streamgen demo` starts it."""
