"""One file per kind of operation: what it does with rows.

A kind is a function of the walk and the operation, entered by the operation's name in ATen. It looks up
what is known of the operation's arguments and says what is known of its results, adding steps to the
plan on the way. An operation without a kind is done on the whole graph anew (`anything.py`).
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
