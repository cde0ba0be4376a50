def rule(x):
    return x
