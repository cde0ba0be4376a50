"""One file per convolution whose algebra pays: a linear map before the sum, Horner's scheme, attention.

See `lower/registry.py`. Convolutions without a lowering, and subclasses of those that have one, are lowered
operation by operation, which needs no code of ours and is slower.
"""
