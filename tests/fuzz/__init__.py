"""Random models, graphs and questions, each compared with the definition: `python -m fuzz --help`.

    graphs     what is removed from: shapes, weights, types
    layers     PyG's convolutions with random options; `norms`: norms and aggregations
    custom     layers as users write them
    pieces     what users write between layers; `structure`: what they do to edges; `habits`: how
               they hold state and wrap layers
    grammar    all of these put together: a seed becomes a spec, a spec becomes source, then a model
    typed      the same for graphs with several node types
    question   a whole case: graph, model, task, options
    truth      the definition's answers of a case (`by_hand.Oracle`), and what rounding may add
    trial      one case, asked in every way and judged
    shrink     the smallest case that still fails; `script`: as a script

A *spec* is plain data (what `json` can write), so that it can be cut down and kept.
"""
