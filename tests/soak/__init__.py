"""Rough use, at random and counted: commands that are killed, starved of disk, run twice at once.

    python -m soak --minutes 60          # what `make soak` does
    python -m soak --kills 100           # kill -9 at random moments, and nothing else

`errands` says what commands there are, when their work is done and whether it is right; `child` runs one in
a process of its own, with a mishap; `__main__` draws and counts.
"""
