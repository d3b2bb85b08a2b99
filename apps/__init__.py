"""Programs for people, built on streamgen's public names."""
