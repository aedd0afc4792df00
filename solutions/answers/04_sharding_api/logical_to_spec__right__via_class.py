"""Keeps the rules in an object, and helpers with the names of the check's own."""

import collections


class check:
    def __init__(self, rules):
        self.table = collections.OrderedDict()
        for name, axes in rules:
            if name not in self.table:
                self.table[name] = axes

    def cases(self, names):
        count = collections.Counter()
        for name in names:
            axes = self.table.get(name)
            count.update([axes] if isinstance(axes, str) else axes or [])
            yield axes
        for axis, times in count.items():
            if times > 1:
                raise ValueError(f"mesh axis '{axis}' is used {times} times")


def logical_to_spec(names, rules):
    return tuple(check(rules).cases(names))


def param_specs(tree, rules):
    if isinstance(tree, tuple):
        return logical_to_spec(tree, rules)
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    done = [(key, param_specs(value, rules)) for key, value in pairs]
    return dict(done) if isinstance(tree, dict) else [value for _, value in done]
