"""Trusts that the products of float32 arrays are fast enough."""


def mixed_precision_loss(params, x, y):
    return digits_loss(params, x, y)
