"""Compares FLOPs with bytes: amounts, not times.

Told: none
Fails: the longest part binds
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(amounts, key=amounts.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))
