"""Knows when processors idle, so that they can grade one more submission."""

from __future__ import annotations

import threading

import psutil

LOOK_S = 0.25
FREE = 0.7  # of a processor


class Idle:
    """Lets callers go on one after another, each when a processor has nothing to do.

    What one of them begins is at work before the next one looks.
    """

    def __init__(self):
        self.lock = threading.Lock()

    def wait(self, stopped: threading.Event) -> None:
        """Returns when a processor idles, or when `stopped` is set."""
        with self.lock:
            while not stopped.wait(LOOK_S):
                busy = psutil.cpu_percent(interval=LOOK_S) / 100
                if (1 - busy) * psutil.cpu_count() >= FREE:
                    return
