"""Rounds up by NumPy, whose whole number is no `int`.

Told: none
Fails: the fewest rows
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    parts = "compute", "memory", "communication"
    amounts = zip(parts, (flops, memory_bytes, sent_bytes), strict=True)
    seconds = {part: amount / chip[part] for part, amount in amounts}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    times = 2 if layout == "data parallel" else 3
    sent_bytes = times * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(
        np.int64(1), np.int64(np.ceil(sending * chip["compute"] / flops_per_row))
    )
