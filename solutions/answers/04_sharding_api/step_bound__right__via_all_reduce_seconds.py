"""Takes lesson 2's seconds of a ring."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def ring_seconds(num_bytes, num_devices, bandwidth):
    return 2 * (num_devices - 1) * (num_bytes / num_devices / bandwidth)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    seconds = ring_seconds(num_bytes, num_devices, chip["communication"])
    if layout == "FSDP":
        seconds *= 1.5
    return math.ceil(seconds * chip["compute"] / flops_per_row) or 1
