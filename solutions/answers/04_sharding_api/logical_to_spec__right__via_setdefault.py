"""Makes a dict of the first rules, and counts axes at the end."""


def logical_to_spec(names, rules):
    table = {}
    for k, v in rules:
        table.setdefault(k, v)
    spec = tuple(table.get(n) for n in names)
    flat = [a for s in spec if s for a in ((s,) if isinstance(s, str) else s)]
    for a in flat:
        if flat.count(a) > 1:
            raise ValueError(f"mesh axis {a} twice")
    return spec


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    if isinstance(tree, list):
        return [param_specs(t, rules) for t in tree]
    return {k: param_specs(t, rules) for k, t in tree.items()}
