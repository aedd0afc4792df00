"""Compares one part after the other."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    seconds = {
        "communication": sent_bytes / chip["communication"],
        "memory": memory_bytes / chip["memory"],
        "compute": flops / chip["compute"],
    }
    bound = "compute"
    for part in ("memory", "communication"):
        if seconds[part] > seconds[bound]:
            bound = part
    return seconds, bound


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    gather = num_bytes / num_devices * (num_devices - 1)
    scatter = gather
    if layout == "FSDP":
        sent_bytes = gather + gather + scatter
    else:
        sent_bytes = scatter + gather
    seconds_per_row = flops_per_row / chip["compute"]
    rows = sent_bytes / chip["communication"] / seconds_per_row
    whole = int(rows)
    return max(1, whole if whole == rows else whole + 1)
