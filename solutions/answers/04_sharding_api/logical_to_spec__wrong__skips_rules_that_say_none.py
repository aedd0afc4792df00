"""Goes on to a later rule where the first one says None.

Told: a rule that says None was passed over
Fails: the first rule counts
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next(
            (axes for rule, axes in rules if rule == name and axes is not None), None
        )
        for axis in [axes] if isinstance(axes, str) else axes or []:
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
