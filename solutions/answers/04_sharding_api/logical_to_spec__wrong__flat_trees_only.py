"""Goes through one dict, though trees are nested.

Told: none
Fails: no mesh axis is used twice; a tree of arrays
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
    return {name: logical_to_spec(names, rules) for name, names in tree.items()}
