"""Flattens the tree, translates its leaves, and puts it together again."""


def logical_to_spec(names, rules):
    def found(name):
        matches = [axes for rule, axes in rules if rule == name]
        return matches[0] if matches else None

    spec = tuple(map(found, names))
    flat = [
        a for axes in spec for a in ([axes] if isinstance(axes, str) else axes or [])
    ]
    twice = sorted({axis for axis in flat if flat.count(axis) > 1})
    if twice:
        raise ValueError("used twice: " + ", ".join(twice))
    return spec


def param_specs(tree, rules):
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda n: type(n) is tuple)
    return jax.tree.unflatten(structure, [logical_to_spec(n, rules) for n in leaves])
