"""A method's options, found from a few nodes whose true influence is known, or as published."""
