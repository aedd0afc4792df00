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
