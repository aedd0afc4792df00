"""Takes the speeds in the order in which the dict was written.

Told: none
Fails: seconds of each part; the longest part binds
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = zip(chip.items(), (flops, memory_bytes, sent_bytes), strict=True)
    seconds = {part: amount / speed for (part, speed), amount in amounts}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))
