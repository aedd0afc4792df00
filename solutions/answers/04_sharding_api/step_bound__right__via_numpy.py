"""Computes with NumPy."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    parts = ("compute", "memory", "communication")
    amounts = np.array([flops, memory_bytes, sent_bytes], float)
    times = amounts / np.array([chip[part] for part in parts])
    return dict(zip(parts, times.tolist(), strict=True)), parts[int(times.argmax())]


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (1 - 1 / num_devices)
    rows = sent_bytes * chip["compute"] / chip["communication"] / flops_per_row
    return int(np.maximum(np.ceil(rows), 1))
