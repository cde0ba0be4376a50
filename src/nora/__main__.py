"""`python -m nora`."""

from nora.cli import app

app(prog_name="nora")
