"""How well two colours are told apart, by WCAG 2."""

import numpy as np
from matplotlib.colors import to_rgb


def contrast(one, other):
    """Computes the contrast ratio of WCAG 2, from 1 to 21."""
    darker, lighter = sorted(luminance(colour) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    """Computes a colour's relative luminance, from 0 to 1."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
