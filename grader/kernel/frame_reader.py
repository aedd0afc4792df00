"""Reads what a learner's process sends, within a limit."""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable

from grader.kernel.inside.frames import FRAME

FRAME_BYTES = 256  # that a frame counts for, in addition to its text
BLOCK = 2**16


class FrameReader(threading.Thread):
    """Reads frames from a pipe; stops a process that sends too much.

    Bytes are counted before they are read, so that this process never holds more.

    Args:
        pipe: its reading end.
        max_bytes: of all frames together.
        kill: called where there are more.

    Attributes:
        frames: of each its kind, the number of its cell, and its text; at the end None.
        over_limit: whether there were more than `max_bytes`.
    """

    def __init__(self, pipe: int, max_bytes: int, kill: Callable[[], object]):
        super().__init__(daemon=True, name="frame-reader")
        self.pipe, self.left, self.kill = pipe, max_bytes, kill
        self.frames: queue.Queue[tuple[bytes, int, str] | None] = queue.Queue()
        self.over_limit = False
        self.wake, self.waker = os.pipe()
        self.ready = select.poll()
        for descriptor in (pipe, self.wake):
            self.ready.register(descriptor, select.POLLIN)

    def run(self) -> None:
        """Reads until the end, the limit, or `stop`."""
        try:
            while True:
                kind, cell, size = FRAME.unpack(self.read(FRAME.size))
                self.left -= size + FRAME_BYTES
                if self.left < 0:
                    self.over_limit = True
                    self.kill()
                    return
                text = self.read(size).decode("utf-8", "replace")
                self.frames.put((kind, cell, text))
        except EOFError:
            pass
        finally:
            os.close(self.wake)
            self.frames.put(None)

    def read(self, size: int) -> bytes:
        """Reads so many bytes.

        Raises:
            EOFError: there are fewer, or this is to stop.
        """
        found = bytearray()
        while len(found) < size:
            if self.wake in dict(self.ready.poll()):
                raise EOFError
            block = os.read(self.pipe, min(size - len(found), BLOCK))
            if not block:
                raise EOFError
            found += block
        return bytes(found)

    def stop(self) -> None:
        """Stops reading, whoever still holds the other end of the pipe."""
        os.close(self.waker)
        self.join()
