"""One file per convolution whose algebra pays: a linear map before the sum, Horner's scheme, attention.

See `lower/lowerings.py`. Convolutions without a lowering, and subclasses of those with one, are lowered
operation by operation, which needs no code here and is slower.
"""
