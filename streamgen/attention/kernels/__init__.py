"""One file a kernel. None of them imports its package before it is chosen."""
