"""Makes wrong answers out of a right one, by rules on its syntax tree.

A rule gets a node of a solution and yields what may stand in its place: each is one
mutant. Most are wrong; those that are right by the contract are in `equivalent.toml`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from exercise import Exercise
from trees import (
    called,
    changed,
    code,
    decorated,
    filled,
    is_constant,
    is_integer,
    names,
    parameters,
    redirected,
    renamed,
    text_with,
    without,
)

STAND_INS = "import stand_ins as _s\n"
REDUCTIONS = {
    "psum": ("pmean",),
    "pmean": ("psum",),
    "pmax": ("pmin", "psum"),
    "pmin": ("pmax",),
}
COLLECTIVES = (*REDUCTIONS, "ppermute", "all_gather", "all_to_all", "psum_scatter")
OTHER_NAMES = {
    "mean": "sum",
    "sum": "mean",
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
}
OTHER_COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OTHER_SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div}
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
OTHER_DTYPES = {"float32": ("bfloat16", "float16"), "bfloat16": ("float16", "float32")}
# Calls that may be left out: their argument is of the same kind as their result.
OPTIONAL = {
    *("abs", "exp", "log", "sqrt", "tanh", "relu", "softmax", "float", "sorted"),
    *("astype", "reshape", "max", "split", "on", "device_put", "eval_shape"),
    *("permutation", "tuple", "fold_in", "abstract"),
}
MAPPINGS = ("pmap", "jit", "shard_map", "make_mesh", "Mesh")


@dataclass(frozen=True)
class Mutant:
    """One wrong answer.

    Attributes:
        exercise: whose solution was changed.
        rule: the rule's name.
        line: of the exercise's cell.
        change: the lines that differ, "before -> after"; of a whole function after
            its name.
        source: the whole cell.
        original: the same of our solution.
    """

    exercise: str
    rule: str
    line: int
    change: str
    source: str
    original: str

    def __str__(self) -> str:
        return f"{self.exercise}  {self.rule}  {self.line}: {self.change}"


def mutants_of(exercise: Exercise) -> list[Mutant]:
    """Applies every rule wherever it applies; no two mutants are the same."""
    original = ast.unparse(exercise.tree)
    found, known = [], {original}
    for rule in RULES:
        for node in exercise.nodes():
            for new in rule(node, exercise):
                text = text_with(exercise.tree, node, new)
                if text in known:
                    continue
                known.add(text)
                name = rule.__name__.replace("_", " ")
                change = change_of(original, text)
                if isinstance(node, ast.FunctionDef):
                    change = f"{node.name}: {change}"
                source = STAND_INS + text if "_s." in text else text
                place = exercise.name, name, node.lineno, change
                found.append(Mutant(*place, source, original))
    return found


def change_of(before: str, after: str) -> str:
    """Writes the lines that differ, "before -> after"."""
    lines = list(difflib.ndiff(before.split("\n"), after.split("\n")))
    old, new = (
        " / ".join(line[2:].strip() for line in lines if line[0] == mark)
        for mark in "-+"
    )
    return f"{old} -> {new}".strip()


def collective_dropped(node, exercise):
    """Leaves a collective out; a device's number becomes 0."""
    if called(node) in COLLECTIVES:
        yield node.args[0]
    elif called(node) == "axis_index":
        yield code("0")


def collective_doubled(node, exercise):
    """Reduces what was reduced already."""
    if called(node) in REDUCTIONS:
        yield changed(node, args=[node, *node.args[1:]])


def collective_exchanged(node, exercise):
    """Uses another reduction, or sends to the other neighbour."""
    for name in REDUCTIONS.get(called(node), ()):
        yield renamed(node, name)
    if called(node) == "ppermute":
        pairs = code("[(b, a) for a, b in PAIRS]", PAIRS=node.args[2])
        yield changed(node, args=[*node.args[:2], pairs])


def gathers_first(node, exercise):
    """Gathers all blocks, then computes a collective's result from them."""
    if called(node) in (*REDUCTIONS, "all_to_all", "psum_scatter"):
        yield redirected(node, f"_s.gathered_{called(node)}")


def sends_more(node, exercise):
    """Adds a useless sum over the devices to a result, or one of an argument."""
    if not isinstance(node, ast.Return) or not (axis := axis_around(node, exercise)):
        return
    parts = {"RESULT": node.value, "AXIS": axis}
    yield changed(node, value=code("_s.with_useless_sum(RESULT, AXIS)", **parts))
    function = exercise.owner(node, "axis_name")
    if function is not None:
        parts["FIRST"] = ast.Name(parameters(function)[0])
        text = "_s.with_useless_gather(RESULT, AXIS, FIRST)"
        yield changed(node, value=code(text, **parts))


def axis_around(node: ast.AST, exercise: Exercise) -> ast.expr | None:
    """Finds the axis that is bound at `node`, if a name for it is available."""
    if exercise.owner(node, "axis_name"):
        return ast.Name("axis_name")
    while node is not exercise.tree:
        node = node.parent
        if isinstance(node, ast.FunctionDef):
            top = node in exercise.functions
            for call in (n for line in node.body for n in ast.walk(line)):
                own = not top or call_is_direct(call, node)
                if called(call) in COLLECTIVES and own and is_constant(call.args[1]):
                    return call.args[1]
    return None


def call_is_direct(call: ast.AST, function: ast.FunctionDef) -> bool:
    """Tells whether `function` is the innermost function around a call."""
    while not isinstance(call, ast.FunctionDef):
        call = call.parent
    return call is function


def mean_for_sum(node, exercise):
    """Exchanges mean and sum, largest and smallest."""
    is_method = isinstance(getattr(node, "func", None), ast.Attribute)
    if called(node) in OTHER_NAMES and (is_method or called(node) in ("max", "min")):
        yield renamed(node, OTHER_NAMES[called(node)])


def another_axis(node, exercise):
    """Uses another axis of an array: in a reduction, a mapping or a spec."""
    if isinstance(node, ast.keyword) and node.arg == "axis":
        for axis in {"0": ("1", "-1"), "1": ("0", "-1")}.get(
            ast.unparse(node.value), ("0",)
        ):
            yield changed(node, value=code(axis))
    elif isinstance(node, ast.keyword) and node.arg == "in_axes":
        entries = getattr(node.value, "elts", [])
        for place, entry in enumerate(entries):
            other = code("0" if ast.unparse(entry) == "None" else "None")
            new = [*entries[:place], other, *entries[place + 1 :]]
            yield changed(node, value=ast.Tuple(new))
    elif called(node) == "all_to_all":
        swap = {"split_axis": "concat_axis", "concat_axis": "split_axis"}
        keywords = [changed(k, arg=swap.get(k.arg, k.arg)) for k in node.keywords]
        yield changed(node, keywords=keywords)
    elif called(node) == "P" and node.args:
        yield changed(node, args=[])
        yield changed(node, args=node.args[::-1])
        yield changed(node, args=[code("None"), *node.args])
    elif called(node) in ("mean", "sum") and node.args:
        axes = node.args[-1]
        for place in range(len(axes.elts) if isinstance(axes, ast.Tuple) else 0):
            fewer = changed(axes, elts=without(axes.elts, place))
            yield changed(node, args=[*node.args[:-1], fewer])


def another_axis_name(node, exercise):
    """Writes an axis's name into the code, or exchanges the names of two axes."""
    if node in exercise.functions and "axis_name" in parameters(node):
        for name in ("i", "devices"):
            yield filled(node, "axis_name", ast.Constant(name))
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and is_constant(node):
        if all(isinstance(name, str) for name in ast.literal_eval(node)):
            yield changed(node, elts=node.elts[::-1])


def other_devices(node, exercise):
    """Uses the devices in another order, or the last ones."""
    if ast.unparse(node) == "jax.devices()":
        yield code("jax.devices()[::-1]")
    elif called(node) in ("make_mesh", "Mesh"):
        yield code("_s.reversed_mesh(MESH)", MESH=node)
        yield code("_s.mesh_of_the_last(MESH)", MESH=node)
    elif called(node) == "pmap":
        yield redirected(node, "_s.pmap_reversed")
        yield redirected(node, "_s.pmap_on_the_last")


def literal_for_an_argument(node, exercise):
    """Hard-codes what the visible check passes as an argument."""
    if node in exercise.functions:
        for name in parameters(node):
            for value in exercise.literals.get(name, ())[:2]:
                yield filled(node, name, value)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if exercise.owner(node, node.id) in exercise.functions:
            yield from exercise.literals.get(node.id, ())[:1]
    elif called(node) in ("axis_size", "device_count"):
        yield code("8")


def leaf_dropped(node, exercise):
    """Leaves an entry out of a dict or a result, or one leaf as it was."""
    if isinstance(node, ast.Dict):
        for place, key in enumerate(node.keys):
            if isinstance(key, ast.Constant):
                keys, values = without(node.keys, place), without(node.values, place)
                yield changed(node, keys=keys, values=values)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        for place in range(len(node.value.elts)):
            rest = changed(node.value, elts=without(node.value.elts, place))
            yield changed(node, value=rest)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "jax.tree.map":
        for leaf in (0, -1):
            yield redirected(node, "_s.map_but", code(str(leaf)))
    elif called(node) in REDUCTIONS and isinstance(node.args[0], ast.Tuple | ast.Name):
        for leaf in (0, -1):
            yield redirected(node, "_s.reduce_but", code(str(leaf)), node.func)


def division_dropped_or_moved(node, exercise):
    """Leaves a division out, or divides before or after another operation."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv):
        yield node.left
        if isinstance(node.left, ast.Call):
            yield divided_before(node.left, node)
    elif isinstance(node, ast.Call):
        for place, inner in enumerate(node.args):
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div):
                args = [*node.args[:place], inner.left, *node.args[place + 1 :]]
                yield changed(inner, left=changed(node, args=args))


def divided_before(call: ast.Call, division: ast.BinOp) -> ast.Call:
    """Copies a call, with a division of its argument instead of its result."""
    if call.args:
        first = changed(division, left=call.args[0])
        return changed(call, args=[first, *call.args[1:]])
    receiver = changed(division, left=call.func.value)
    return changed(call, func=changed(call.func, value=receiver))


def off_by_one(node, exercise):
    """Adds one to an integer or to the end of a range, or subtracts one."""
    parent = getattr(node, "parent", None)
    while isinstance(parent, ast.Tuple | ast.UnaryOp):
        parent = parent.parent
    is_axis = getattr(parent, "arg", None) in ("axis", "in_axes")
    if is_integer(node) and not is_axis:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1) if node.value else code("-1")
    elif called(node) in ("range", "arange", "fori_loop"):
        place = 1 if called(node) == "fori_loop" else len(node.args) - 1
        for sign in "-+":
            end = code(f"END {sign} 1", END=node.args[place])
            new = [*node.args[:place], end, *node.args[place + 1 :]]
            yield changed(node, args=new)


def another_comparison(node, exercise):
    """Uses another comparison, or leaves out a part of a condition."""
    if isinstance(node, ast.Compare):
        for other in OTHER_COMPARISONS[type(node.ops[0])]:
            yield changed(node, ops=[other(), *node.ops[1:]])
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand


def choice_dropped(node, exercise):
    """Always takes the same of two alternatives."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif called(node) == "where" and len(node.args) == 3:
        yield from node.args[1:]
    elif isinstance(node, ast.If) and not raises(node):
        yield changed(node, test=code("True"))
        yield changed(node, test=code("False"))


def error_dropped(node, exercise):
    """Does not raise."""
    if isinstance(node, ast.If) and raises(node):
        yield ast.Pass()
    elif isinstance(node, ast.Raise) and not raises(node.parent):
        yield ast.Pass()


def raises(node: ast.AST) -> bool:
    """Tells whether a statement only raises an error under a condition."""
    is_if = isinstance(node, ast.If) and not node.orelse
    return is_if and isinstance(node.body[0], ast.Raise)


def another_error(node, exercise):
    """Raises another error, or one whose text is fixed as in the visible check."""
    if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
        return
    yield changed(node, exc=changed(node.exc, func=code("RuntimeError")))
    text = node.exc.args[0]
    if not isinstance(text, ast.JoinedStr):
        return
    for fixed in exercise.mentions:
        yield changed(node, exc=changed(node.exc, args=[ast.Constant(fixed)]))
    for place, part in enumerate(text.values):
        if isinstance(part, ast.FormattedValue):
            fewer = changed(text, values=without(text.values, place))
            yield changed(node, exc=changed(node.exc, args=[fewer]))


def another_dtype(node, exercise):
    """Computes with fewer digits, or gives a result of another dtype."""
    if isinstance(node, ast.FunctionDef):
        yield decorated(node, '_s.result_through("bfloat16")')
        if node in exercise.functions:
            yield decorated(node, '_s.result_through("float16")')
            yield decorated(node, '_s.arguments_through("bfloat16")')
            yield decorated(node, '_s.result_as("float32")')
            yield decorated(node, '_s.result_as("bfloat16")')
    elif isinstance(node, ast.Attribute):
        for name in OTHER_DTYPES.get(node.attr, ()):
            yield changed(node, attr=name)


def spread_afterwards(node, exercise):
    """Computes on one device, or on the host, and then distributes the result."""
    if exercise.is_called_on_arrays(node):
        yield decorated(node, "_s.through_the_host")
        yield decorated(node, "_s.left_on_the_host")
    elif called(node) == "pmap":
        yield redirected(node, "_s.vmap_and_spread")


def remembered(node, exercise):
    """Caches what the first call made."""
    if exercise.is_called_on_arrays(node):
        yield decorated(node, "_s.remembers_the_first")
        yield decorated(node, "_s.remembers_by_shapes")
    elif called(node) in MAPPINGS:
        yield code("_s.once(lambda: MADE)", MADE=node)


def arguments_suffer(node, exercise):
    """Deletes, donates or changes an argument."""
    if exercise.is_called_on_arrays(node):
        yield decorated(node, "_s.deletes_arguments")
        yield decorated(node, "_s.writes_into_arguments")
    elif called(node) in ("jit", "pmap") and "donate_argnums" not in {
        keyword.arg for keyword in node.keywords
    }:
        donated = ast.keyword("donate_argnums", code("0"))
        yield changed(node, keywords=[*node.keywords, donated])


def python_loop(node, exercise):
    """Loops in Python where the solution loops in the compiled program."""
    if called(node) in ("scan", "fori_loop"):
        yield redirected(node, f"_s.unrolled_{called(node)}")


def rounds_dropped(node, exercise):
    """Runs only the first two rounds of a loop."""
    if (
        isinstance(node.parent, ast.For | ast.comprehension)
        and node is node.parent.iter
    ):
        yield code("_s.first(2, ALL)", ALL=node)


def jit_dropped(node, exercise):
    """Does not compile."""
    if called(node) == "jit":
        yield node.args[0]
    elif node in exercise.functions:
        for place, decorator in enumerate(node.decorator_list):
            if ast.unparse(decorator).endswith("jit"):
                yield changed(node, decorator_list=without(node.decorator_list, place))


def numpy_for_jnp(node, exercise):
    """Uses NumPy's function instead of JAX's, at one place or everywhere."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "jnp":
        if hasattr(np, node.attr):
            yield changed(node, value=ast.Name("np"))
    elif node in exercise.functions and not set(OTHER_DTYPES) & {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }:
        yield filled(node, "jnp", ast.Name("np"))


def sign_or_order(node, exercise):
    """Exchanges plus and minus, or the two sides of an operation."""
    if isinstance(node, ast.BinOp):
        if other := OTHER_SIGNS.get(type(node.op)):
            yield changed(node, op=other())
        if isinstance(node.op, ORDERED):
            yield changed(node, left=node.right, right=node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand


def results_swapped(node, exercise):
    """Returns, or unpacks, two values in the other order."""
    if isinstance(node, ast.Tuple) and isinstance(node.parent, ast.Return | ast.Assign):
        for place in range(len(node.elts) - 1):
            one, two = node.elts[place : place + 2]
            elts = [*node.elts[:place], two, one, *node.elts[place + 2 :]]
            yield changed(node, elts=elts)


def keyword_dropped(node, exercise):
    """Leaves a keyword argument out."""
    for place, keyword in enumerate(getattr(node, "keywords", ())):
        if keyword.arg:
            yield changed(node, keywords=without(node.keywords, place))


def call_dropped(node, exercise):
    """Uses an argument instead of the result of a function of it."""
    if called(node) in OPTIONAL:
        is_method = isinstance(node.func, ast.Attribute) and called(node) in (
            *("astype", "reshape", "max", "split"),
        )
        if is_method and not ast.unparse(node.func.value).startswith("jax"):
            yield node.func.value
        elif node.args:
            yield node.args[0]


def statement_dropped(node, exercise):
    """Leaves out a statement whose names exist without it."""
    is_again = isinstance(node, ast.Assign) and any(
        isinstance(other, ast.Name | ast.arg)
        and (other.lineno, other.col_offset) < (node.lineno, node.col_offset)
        and getattr(other, "id", getattr(other, "arg", "")) == target.id
        for target in names(node.targets[0])
        for other in ast.walk(enclosing(node))
    )
    if isinstance(node, ast.Expr | ast.AugAssign) or is_again:
        if not isinstance(getattr(node, "value", None), ast.Yield | ast.Constant):
            yield ast.Pass()


def enclosing(node: ast.AST) -> ast.FunctionDef:
    """Finds the innermost function around a node."""
    while not isinstance(node, ast.FunctionDef):
        node = node.parent
    return node


RULES: tuple[Callable, ...] = (
    collective_dropped,
    collective_doubled,
    collective_exchanged,
    gathers_first,
    sends_more,
    mean_for_sum,
    another_axis,
    another_axis_name,
    other_devices,
    literal_for_an_argument,
    leaf_dropped,
    division_dropped_or_moved,
    off_by_one,
    another_comparison,
    choice_dropped,
    error_dropped,
    another_error,
    another_dtype,
    spread_afterwards,
    remembered,
    arguments_suffer,
    python_loop,
    rounds_dropped,
    jit_dropped,
    numpy_for_jnp,
    sign_or_order,
    results_swapped,
    keyword_dropped,
    call_dropped,
    statement_dropped,
)
