"""Finds a rule by how the name begins.

Told: none
Fails: an entry per name; nothing is remembered
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        matches = (a for rule, a in rules if name and name.startswith(rule))
        axes = next(matches, None)
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
