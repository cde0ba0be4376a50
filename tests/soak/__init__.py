"""Rough use, at random and counted: commands that are killed, starved of disk, run twice at once.

    python -m soak --minutes 60          # what `make soak` does
    python -m soak --kills 100           # kill -9 at random moments, and nothing else

With `--out` the counts are written after every trial, and the same command goes on where it was; `--batch 10`
stops after ten trials, for machines that others need, too.

`errands` says what commands there are, when their work is done and whether it is right; `child` runs one in
a process of its own, with a mishap; `counts` keeps what came of it; `__main__` draws.
"""
