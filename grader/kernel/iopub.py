"""Reads what a kernel publishes, within a limit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import zmq

IDLE_MS = 100


class IopubReader(threading.Thread):
    """Reads what a kernel publishes and stops a kernel that publishes too much.

    Attributes:
        messages: the messages, each a list of frames.
        over_limit: whether there were more than `max_bytes`; then it calls `kill`.
        disconnected: whether the kernel closed the connection, or ZeroMQ did for a
            message that is too long.
    """

    def __init__(self, socket: zmq.Socket, max_bytes: int, kill: Callable[[], None]):
        super().__init__(daemon=True, name="iopub-reader")
        self.socket, self.max_bytes, self.kill = socket, max_bytes, kill
        self.messages: queue.Queue[list[bytes]] = queue.Queue()
        self.over_limit = self.disconnected = False
        self.ended = threading.Event()
        self.events = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)

    def run(self) -> None:
        """Reads until it is stopped, or is over the limit."""
        received, poller = 0, zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self.events, zmq.POLLIN)
        while not self.ended.is_set() and not self.over_limit:
            ready = dict(poller.poll(IDLE_MS))
            if self.socket in ready:
                frames = self.socket.recv_multipart()
                received += sum(map(len, frames))
                self.over_limit = received > self.max_bytes
                self.messages.put(frames)
            elif self.events in ready:
                self.events.recv_multipart()
                self.disconnected = True
        if self.over_limit:
            self.kill()

    def stop(self) -> None:
        """Stops reading; afterwards the socket may be closed."""
        self.ended.set()
        self.join()
        self.events.close(linger=0)
