"""Frames in and out of files and pipes."""
