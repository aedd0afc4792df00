"""Looks for an axis inside of the names in use: x is found in xy.

Told: none
Fails: no mesh axis is used twice
"""


def logical_to_spec(names, rules):
    spec, used = [], ""
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used += f"{axis} "
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
