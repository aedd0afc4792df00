"""Writes the specs into the caller's tree.

Told: none
Fails: arguments stay
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
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        tree[key] = param_specs(tree[key], rules)
    return tree
