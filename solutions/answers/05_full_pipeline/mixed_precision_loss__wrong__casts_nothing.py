"""Trusts that the products of float32 arrays are fast enough.

Told: none
Fails: bfloat16 products
"""


def mixed_precision_loss(params, x, y):
    return digits_loss(params, x, y)
