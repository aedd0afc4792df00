"""Makes tuples of a tree's lists, in which nobody finds the leaves again.

Told: none
Fails: a tree of arrays
"""


def logical_to_spec(names, rules):
    spec, used = [], set()
    for name in names:
        axes = next((axes for rule, axes in rules if rule == name), None)
        for axis in [axes] if isinstance(axes, str) else axes or []:
            if axis in used:
                raise ValueError(f"{axis} is used twice")
            used.add(axis)
        spec.append(axes)
    return tuple(spec)


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    if isinstance(tree, dict):
        return {name: param_specs(node, rules) for name, node in tree.items()}
    return tuple(param_specs(node, rules) for node in tree)
