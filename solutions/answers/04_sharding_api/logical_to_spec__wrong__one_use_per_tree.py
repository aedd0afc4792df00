"""Forbids a mesh axis in a second array as well.

Told: none
Fails: no mesh axis is used twice; a tree of arrays
"""


def translate(names, rules, used):
    spec = []
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def logical_to_spec(names, rules):
    return translate(names, rules, [])


def param_specs(tree, rules):
    used = []
    return jax.tree.map(
        lambda names: translate(names, rules, used),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
