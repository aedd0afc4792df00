"""Connects to services of the grading machine: databases, Jupyter, Docker, Dask."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

LEAKED = """
import glob
import socket

PORTS = (22, 25, 80, 443, 2375, 5432, 6379, 8000, 8080, 8786, 8787, 8888, 9000)


def leaked():
    sockets = [*glob.glob("/run/**/*.sock", recursive=True), "/var/run/docker.sock"]
    for path in sockets:
        with socket.socket(socket.AF_UNIX) as line:
            try:
                line.connect(path)
                return True
            except OSError:
                pass
    for port in PORTS:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
            return True
        except OSError:
            pass
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
