"""The question: a model, a graph, a task, the nodes to remove; checked before any long work."""

from nora.model.problem import Problem, Transform, build_problem

__all__ = ["Problem", "Transform", "build_problem"]
