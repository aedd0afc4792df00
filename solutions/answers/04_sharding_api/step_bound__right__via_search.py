"""Searches the number of rows by halving, with `step_bound`."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    sent = (2 + (layout == "FSDP")) * (num_devices - 1) * num_bytes / num_devices

    def is_hidden(rows):
        return step_bound(rows * flops_per_row, 0, sent, chip)[1] == "compute"

    low, high = 0, 1
    while not is_hidden(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_hidden(middle) else (middle, high)
    return high
