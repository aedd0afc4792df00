"""Compares whole entries: an axis inside of a tuple is not seen.

Told: an axis in a tuple is used as well
Fails: no mesh axis is used twice
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if axes else []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
