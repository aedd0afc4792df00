"""Uses `operator` and a table of functions."""

import operator


def step_bound(flops, memory_bytes, sent_bytes, chip):
    names = ["compute", "memory", "communication"]
    speeds = operator.itemgetter(*names)(chip)
    times = list(map(operator.truediv, (flops, memory_bytes, sent_bytes), speeds))
    return dict(zip(names, times, strict=True)), names[times.index(max(times))]


LAYOUTS = {
    "data parallel": lambda size, others: 2 * size * others,
    "FSDP": lambda size, others: 3 * size * others,
}


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    sent = LAYOUTS[layout](num_bytes, (num_devices - 1) / num_devices)
    needed = sent / chip["communication"] * chip["compute"]
    return max(math.ceil(needed / flops_per_row), 1)
