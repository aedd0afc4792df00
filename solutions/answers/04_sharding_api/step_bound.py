# %% wrong="all reduces in fsdp" fails="fewest rows"
# cause: gradients are not all-reduced
"""Two gathers, and all gradients forevery device."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 4}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="always one more" fails="fewest rows"
"""One row more where the number is whole already."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, int(sending * chip["compute"] / flops_per_row) + 1)


# %% wrong="eight devices always" fails="fewest rows"
# cause: the devices are not always 8
"""Counts with the eight devices of the lesson."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = 2 if layout == "data parallel" else 3
    sending = passes * num_bytes * 7 / 8 / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="fsdp holds a part" fails="fewest rows"
"""Takes a device's part of the parameters for all of them."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices**2
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="gathers once" fails="fewest rows"
# cause: weights are gathered backward, too
"""The weights stay gathered for the backward pass."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 2}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="half an all reduce" fails="fewest rows"
# cause: an all-reduce sends twice
"""Counts the reduce-scatter of an all-reduce alone."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 1, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="largest amount" fails="the bottleneck"
"""Compares FLOPs with bytes: amounts, not times."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(amounts, key=amounts.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="names the shortest" fails="the bottleneck"
"""Names the part that is done first."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, min(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="no row for one device" fails="fewest rows"
# cause: one row is the least
"""One device sends nothing, and gets no row."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return math.ceil(sending * chip["compute"] / flops_per_row)


# %% wrong="relies on the order of chip" fails="time of each part; the bottleneck"
"""Takes the speeds in the order in which the dict was written."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = zip(chip.items(), (flops, memory_bytes, sent_bytes), strict=True)
    seconds = {part: amount / speed for (part, speed), amount in amounts}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="rounds down" fails="fewest rows"
# cause: the rows were rounded down
"""Rounds the rows down."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, int(sending * chip["compute"] / flops_per_row))


# %% wrong="sends its own part" fails="fewest rows"
# cause: a device does not send its own part
"""Each device sends its own part to itself, too."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="shares for seconds" fails="time of each part; the bottleneck"
"""Returns each part's share of the sum, as if parts followed each other."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    total = sum(seconds.values())
    seconds = {part: time / total for part, time in seconds.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="speed by amount" fails="time of each part; the bottleneck"
# cause: seconds are an amount divided by a speed
"""A speed divided by an amount: how often per second, not how long."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: chip[part] / max(amount, 1e-9) for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% wrong="speed of memory" fails="fewest rows"
"""Divides what is sent by the speed of memory."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["memory"]
    return max(1, math.ceil(sending * chip["compute"] / flops_per_row))


# %% right="via all reduce seconds"
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


# %% right="via fractions"
"""Computes without rounding."""

from fractions import Fraction


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    exact = {part: Fraction(amounts[part]) / Fraction(chip[part]) for part in amounts}
    bound = sorted(exact, key=exact.get, reverse=True)[0]
    return {part: float(time) for part, time in exact.items()}, bound


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = 3 if layout == "FSDP" else 2
    sent = passes * Fraction(num_bytes) * (num_devices - 1) / num_devices
    ratio = Fraction(chip["compute"]) / Fraction(chip["communication"])
    return max(1, -(-sent * ratio // Fraction(flops_per_row)))


# %% right="via ifs"
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


# %% right="via numpy"
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


# %% right="via operators"
"""Uses `operator` and a table of functions."""

import operator


def step_bound(flops, memory_bytes, sent_bytes, chip):
    names = ["compute", "memory", "communication"]
    speeds = operator.itemgetter(*names)(chip)
    times = list(map(operator.truediv, (flops, memory_bytes, sent_bytes), speeds))
    return dict(zip(names, times, strict=True)), names[times.index(max(times))]


LAYOUTS = {
    "data parallel": lambda size, others: 2 * size * others,
    "FSDP": lambda size, others: 3 * size * others,
}


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    sent = LAYOUTS[layout](num_bytes, (num_devices - 1) / num_devices)
    needed = sent / chip["communication"] * chip["compute"]
    return max(math.ceil(needed / flops_per_row), 1)


# %% right="via search"
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


# %% wrong="rounds by half" fails="fewest rows"
"""Rounds up by adding a half."""


def step_bound(flops, memory_bytes, sent_bytes, chip):
    amounts = {"compute": flops, "memory": memory_bytes, "communication": sent_bytes}
    seconds = {part: amount / chip[part] for part, amount in amounts.items()}
    return seconds, max(seconds, key=seconds.get)


def rows_to_hide(num_bytes, flops_per_row, num_devices, layout, chip):
    passes = {"data parallel": 2, "FSDP": 3}[layout]
    sent_bytes = passes * num_bytes * (num_devices - 1) / num_devices
    sending = sent_bytes / chip["communication"]
    return max(1, round(sending * chip["compute"] / flops_per_row + 0.5))
