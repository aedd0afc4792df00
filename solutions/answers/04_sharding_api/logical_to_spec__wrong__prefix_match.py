"""Takes a rule whose name begins with the name.

Told: none
Fails: an entry per name; nothing is remembered
"""


def logical_to_spec(names, rules):
    used, spec = [], []
    for name in names:
        axes = None
        if name is not None:
            axes = next((axes for rule, axes in rules if rule.startswith(name)), None)
        for axis in (
            axes if isinstance(axes, tuple) else () if axes is None else (axes,)
        ):
            if axis in used:
                raise ValueError(f"mesh axis {axis!r} is used twice")
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda names: logical_to_spec(names, rules),
        tree,
        is_leaf=lambda n: isinstance(n, tuple),
    )
