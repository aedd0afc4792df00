"""Makes a dict of the rules, in which later ones replace earlier ones.

Told: the last rule with the name was taken
Fails: the first rule counts
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = dict(rules).get(name)
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
