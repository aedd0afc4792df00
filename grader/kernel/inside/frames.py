"""What goes through the two pipes between the grader and a learner's process.

Requests: a header, then a cell's source. Frames: a header, then a text in UTF-8. Sizes
are in bytes, so the reader decides how much to read, and there is nothing to parse.
"""

from __future__ import annotations

import os
import queue
import select
import struct
import threading
from collections.abc import Callable

REQUEST = struct.Struct(">I?I")  # number of the cell, whether it is silent, size
FRAME = struct.Struct(">cII")  # kind, number of the cell, size
TEXT, ERROR, PICTURE, REPLY, DONE = b"t", b"e", b"p", b"r", b"d"
# Of a display message that holds the answer to a question.
REPLY_TYPE = "application/x-course-answer+json"
FRAME_BYTES = 256  # that a frame counts for, in addition to its text
LOOK_AGAIN_MS = 200


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
        self.over_limit = self.stopped = False
        self.ready = select.poll()
        self.ready.register(pipe, select.POLLIN)

    def run(self) -> None:
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
            self.frames.put(None)

    def read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            while not self.ready.poll(LOOK_AGAIN_MS):
                if self.stopped:
                    raise EOFError
            block = os.read(self.pipe, min(size - len(found), 2**16))
            if not block:
                raise EOFError
            found += block
        return bytes(found)

    def stop(self) -> None:
        """Stops reading, whoever still holds the other end of the pipe."""
        self.stopped = True
        self.join()
