"""Asks whether two names are one object, not whether they are equal.

Told: none
Fails: an entry per name; nothing is remembered
"""


def logical_to_spec(names, rules):
    spec, used = [], []
    for name in names:
        axes = None
        for rule, a in rules:
            if rule is name and name is not None:
                axes = a
                break
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
