"""Rounds the rows down.

Told: the rows were rounded down
Fails: the fewest rows; what a layout sends
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, int(sending * chip["compute"] / flops_per_row))
