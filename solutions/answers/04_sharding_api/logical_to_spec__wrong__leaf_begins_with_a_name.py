"""Takes a tuple for a leaf only where it begins with a name: (None, "embed") is none.

Told: none
Fails: a tree of arrays
"""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(f"The mesh axis {axis!r} is used twice.")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def is_names(node):
    return isinstance(node, tuple) and all(isinstance(name, str) for name in node[:1])


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules), tree, is_leaf=is_names
    )
