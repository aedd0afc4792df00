"""Takes names for the same that differ in case.

Told: none
Fails: an entry per name; nothing is remembered
"""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = next((a for r, a in rules if name and r.lower() == name.lower()), None)
        for axis in (axes,) if isinstance(axes, str) else axes or ():
            if axis in used:
                raise ValueError(axis)
            used.append(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    return jax.tree.map(
        lambda n: logical_to_spec(n, rules),
        tree,
        is_leaf=lambda n: isinstance(n, tuple),
    )
