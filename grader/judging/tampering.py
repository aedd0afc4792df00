"""Finds code that attacks the checking instead of solving the exercise.

Only a reason for a person to look: no mark is given or taken by what is found here.
The list is short on purpose, so that honest code is not suspected.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping

from grader.submissions.definitions import MAX_SOURCE, UNREADABLE, parse

# The course's own modules; what draws pictures may be changed.
COURSE = re.compile(r"(coursekit(?!\.draw\b|\.notebook\.draw_)|grader)\b")
# What the set-up cell imports, by the names that it gives; learners may reuse a name.
SET_UP = {
    "setup": "coursekit.setup",
    "check": "coursekit.notebook.check",
    "example": "coursekit.notebook.example",
    "scorecard": "coursekit.notebook.scorecard",
    "observe": "coursekit.observe.observe",
    "collectives": "coursekit.tracing.collectives",
}
INNER = {  # names that reach into frames, memory or the interpreter
    "gc.get_objects",
    "gc.get_referrers",
    "inspect.currentframe",
    "inspect.stack",
    "sys._current_frames",
    "sys._getframe",
    "sys.setprofile",
    "sys.settrace",
    "threading.setprofile",
    "threading.settrace",
}
KERNEL = {  # what IPython and its kernel run cells with
    "ast_transformers",
    "display_pub",
    "do_execute",
    "input_transformer_manager",
    "input_transformers_cleanup",
    "input_transformers_post",
    "run_cell",
    "run_cell_async",
    "set_custom_exc",
    "showtraceback",
    "shell_handlers",
}
SHELL = re.compile(r"(IPython\.)?get_ipython\(\)\.|IPython\.|ipykernel\.")
MAGIC = re.compile(r"(?m)^([ \t]*)(?:\w[\w, \t]*=[ \t]*)?[%!?].*$|^([ \t]*)[\w.]+\?+$")


def evidence(sources: Collection[str]) -> tuple[str, ...]:
    """Lists, in plain words, what in `sources` attacks the checking."""
    found: dict[str, None] = {}
    if (size := sum(map(len, sources))) > MAX_SOURCE:
        return (f"It holds {size} characters of code, too many to be read.",)
    trees = [tree for source in sources if (tree := parsed(source))]
    try:
        names = meanings(trees)
        for tree in trees:
            for node in ast.walk(tree):
                look(node, names, found)
    except RecursionError:
        found["It nests code too deeply to be read."] = None
    return tuple(found)


def parsed(source: str) -> ast.Module | None:
    """Parses a cell, magics left out; None where it cannot run either."""
    while source.lstrip().startswith("%%"):
        source = source.lstrip().partition("\n")[2]
    for text in (source, MAGIC.sub(r"\1\2pass", source)):
        try:
            return parse(text)
        except UNREADABLE:
            continue
    return None


def look(node: ast.AST, names: Mapping[str, str], found: dict[str, None]) -> None:
    """Adds what one node does."""
    path = dotted(node, names)
    loaded = []
    if isinstance(node, ast.Import):
        loaded = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        loaded = [node.module or ""]
    elif isinstance(node, ast.Call):
        loaded = [path]  # of `__import__("ctypes")`, say
    for module in loaded:
        if module.split(".")[0] == "ctypes":
            found["It uses ctypes, which can change any memory."] = None
        if module.split(".")[0] == "grader":
            found["It uses the grader's half of a check."] = None
    if path in INNER:
        found[f"It uses {path}, which looks into other code's frames."] = None
    changed = targets(node, names)
    for whole in (path, *changed):
        last = whole.split(".")[-1]
        if SHELL.match(whole) and last in KERNEL:
            found[f"It changes how cells are run ({last})."] = None
    for target in changed:
        first = target.split(".")[0]
        if "." in target and COURSE.match(target):
            found[f"It replaces {target}, which checks its answers."] = None
        if "." in target and first == "builtins":
            found[f"It replaces {target}."] = None
        if target.startswith("sys.modules[") and COURSE.match(target[12:-1]):
            found[f"It replaces the module {target[12:-1]}."] = None


def meanings(trees: Iterable[ast.AST]) -> dict[str, str]:
    """Maps names to what they stand for: modules by their path, a learner's own by "".

    A name that some cell imports stays the imported one, whatever else it is.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {"__builtins__": "builtins"}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:  # `import a.b` gives the name `a`
                first = alias.name.split(".")[0]
                names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    imported = dict(names)
    for node in nodes:  # in the order of the cells, so that aliases of aliases count
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                path = dotted(value, names)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                path = ""
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                path = ""
            case _:
                continue
        if name not in imported:
            names[name] = path or names.get(name, "")
    return names


def dotted(node: ast.AST, names: Mapping[str, str]) -> str:
    """Writes a chain of names as text: `sys.modules[observe]`; "" for all else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, SET_UP.get(node.id, node.id))
    if isinstance(node, ast.Attribute):
        before = dotted(node.value, names)
        return f"{before}.{node.attr}" if before else ""
    if isinstance(node, ast.Call):
        return result(dotted(node.func, names), node.args, names)
    if isinstance(node, ast.Subscript):
        before, key = dotted(node.value, names), getattr(node.slice, "value", "")
        if before == "sys.modules" and isinstance(node.ctx, ast.Load):
            return str(key)  # the module itself
        return f"{before}[{key}]" if before else ""
    return ""


def result(function: str, arguments: list[ast.expr], names: Mapping[str, str]) -> str:
    """Writes what a call returns, where that is a module or one of its names."""
    plain = [str(getattr(argument, "value", "")) for argument in arguments]
    if function in ("__import__", "importlib.import_module") and plain:
        return "".join(plain[1:2]) + plain[0] if plain[0][:1] == "." else plain[0]
    attributes = {"getattr": plain[1:2], "vars": ["__dict__"], "type": ["__class__"]}
    if function in attributes and arguments:
        before = dotted(arguments[0], names)
        return ".".join([before, *attributes[function]]) if before else ""
    return f"{function}()" if function.endswith("get_ipython") else ""


def targets(node: ast.AST, names: Mapping[str, str]) -> list[str]:
    """Names what a statement sets or deletes: by `=`, `del` or `setattr`."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        is_load = isinstance(node.ctx, ast.Load)
        return [] if is_load else [dotted(node, names)]
    if isinstance(node, ast.Call) and dotted(node.func, names) in (
        "setattr",
        "builtins.setattr",
        "delattr",
    ):
        parts = [dotted(a, names) for a in node.args[:1]]
        parts += [str(getattr(a, "value", "?")) for a in node.args[1:2]]
        return [".".join(parts)] if len(parts) == 2 else []
    return []
