"""Plots in cells and in an answer."""

from hostile.build import FULL, solved

STATUS = "GRADED"
POINTS = FULL

NORMALIZE = """
%matplotlib inline
import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.show()


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    plt.figure()
    plt.hist(x.ravel())
    plt.show()
    return x - np.mean(x, axis=0)
"""


def submission(lesson):
    return solved(lesson, normalize=NORMALIZE)
