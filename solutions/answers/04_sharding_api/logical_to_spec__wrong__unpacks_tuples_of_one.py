"""A tuple of one mesh axis becomes that axis.

Told: a tuple of one axis became that axis
Fails: an entry per name; the first rule counts
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        axes = (axes,) if isinstance(axes, str) else axes or ()
        for axis in axes:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes[0] if len(axes) == 1 else axes or None)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda node: isinstance(node, tuple),
    )
