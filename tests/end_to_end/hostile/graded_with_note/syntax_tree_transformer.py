"""Rewrites each cell's syntax tree before it runs: the expectations are dropped."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = """
import ast


class Drop(ast.NodeTransformer):
    def visit_Expr(self, node):
        return ast.Pass() if "expect" in ast.unparse(node) else node


get_ipython().ast_transformers.append(Drop())


def double(x):
    return 0
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
