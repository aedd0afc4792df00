"""Connects to the outside, by name and by number, to send the exercises away."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import socket

HOSTS = [("1.1.1.1", 53), ("8.8.8.8", 443), ("example.org", 80)]
HOSTS += [("169.254.169.254", 80), ("2606:4700:4700::1111", 53)]


def leaked():
    for host in HOSTS:
        try:
            socket.create_connection(host, timeout=1).close()
            return True
        except OSError:
            continue
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
