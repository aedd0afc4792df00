"""Takes times for equal that differ by little: the first of them is not the longest.

Told: none
Fails: seconds of each part; the longest part binds; nothing is remembered
"""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    seconds = {
        "compute": flops / chip["compute"],
        "memory": memory_bytes / chip["memory"],
        "communication": sent_bytes / chip["communication"],
    }
    longest = max(seconds.values())
    return seconds, next(k for k, s in seconds.items() if np.isclose(s, longest))


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))
