"""A kernel from the fork server is like one that starts as usual; both can fail."""

import contextlib
import json
import os
import socket
import textwrap
from concurrent.futures import ThreadPoolExecutor

import printed
import pytest

from grader import ROOT
from grader.containment import process
from grader.containment.fork_server import ForkServerError
from grader.containment.limits import Limits
from grader.judging import judge_process
from grader.kernel import learner_box
from grader.kernel import session as sessions
from grader.kernel.learner_box import fork_server
from grader.kernel.session import Session

LIMITS = Limits(wall_s=40)
FACTS = """
import json, os, resource, signal, sys
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
print(json.dumps({
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": sys.path,
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "interrupt": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "children": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "hash": hash("a text"),
    "umask": os.umask(0o22),
}))
"""


@pytest.fixture
def server(contained_here):
    """The fork server of all tests."""
    return fork_server(start=True)


@pytest.fixture
def none_yet(contained_here, monkeypatch):
    """Stands for a process that has started no fork server."""
    monkeypatch.setattr(learner_box, "_server", None)
    yield
    if made := fork_server():
        made.close()


def facts():
    with Session(LIMITS) as session:
        result = printed.run(session, FACTS)
        assert result.error == ""
        return json.loads(result.text)


def forked(session):
    return (
        "True" in printed.run(session, "import sys; print('jax' in sys.modules)").text
    )


def test_a_forked_kernel_finds_what_another_one_finds(server, monkeypatch):
    forked = facts()
    monkeypatch.setattr(sessions, "fork_server", lambda: None)
    usual = facts()
    for one in (forked, usual):
        for name in ("PWD", "PYDEVD_USE_FRAME_EVAL"):  # of a start, and of an import
            one["environment"].pop(name, None)
        one["path"] = [path for path in one["path"] if not path.endswith(".zip")]
    assert forked == usual


def test_modules_come_from_the_box_and_not_from_the_server(server):
    code = (
        "from coursekit import observation\n"
        "print(observation.__file__, observation.describe_call('f', [], None))"
    )
    with Session(LIMITS) as session:
        place = "/tmp/course/coursekit/observation.py"
        assert printed.run(session, code).text == f"{place} f()\n"
        linked = (
            "import inspect; print(inspect.getsource(observation.describe_call)[:3])"
        )
        assert printed.run(session, linked).text == "def\n"


def test_nothing_of_one_kernel_is_left_for_the_next(server):
    with Session(LIMITS) as session:
        session.run("import jax; jax.config.update('jax_enable_x64', True)")
        session.run("jax.left = open('/tmp/left', 'w'); open('/dev/shm/left', 'w')")
    code = """
import jax, os
left = [os.path.exists(f"{folder}/left") for folder in ("/tmp", "/dev/shm")]
print(jax.config.jax_enable_x64, hasattr(jax, "left"), *left)
"""
    with Session(LIMITS) as session:
        assert printed.run(session, code).text == "False False False False\n"


def test_without_a_server_kernels_start_as_usual(none_yet):
    assert fork_server() is None
    with Session(LIMITS) as session:
        assert not forked(session)


def test_each_start_returns_the_same_server(none_yet):
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(fork_server, start=True) for _ in range(4)]
    assert {future.result() for future in futures} == {fork_server()}
    with Session(LIMITS) as session:
        assert forked(session)


def test_a_server_that_has_ended_is_done_without_until_another_is_started(none_yet):
    first = fork_server(start=True)
    first.process.kill()
    with Session(LIMITS) as session:
        assert not forked(session)
    assert fork_server() is None
    second = fork_server(start=True)
    assert second is not first and second.alive


def test_a_server_that_cannot_enter_boxes_is_done_without(server, monkeypatch):
    sender = process.sender
    monkeypatch.setattr(process, "sender", lambda box: sender(box) + 10**7)
    with Session(LIMITS) as session:
        assert not forked(session)


def test_a_box_that_does_not_start_is_an_error_at_once():
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(ForkServerError, match="did not start"):
        process.sender(ours)


LOOK = """
import json, os, resource
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
wanted = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
found = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "privileges": {name: status[name].strip() for name in wanted},
    "unused uid": os.getuid() >= 1_900_000_000 or os.getuid() == HOST,
    "files": sorted(os.listdir("/")),
    "net": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys") else [],
    "others": len([name for name in os.listdir("/proc") if name.isdigit()]) < 9,
    "seen": os.path.exists(COURSE + "/solutions"),
}
raise RuntimeError(json.dumps(found))
"""


def judge_facts(monkeypatch):
    """What a check sees of the process that it runs in."""
    source = f"COURSE, HOST = {str(ROOT)!r}, {os.getuid()}\n{LOOK}"
    check = '@visible("f", points=1, essential=["f"])\ndef examples():\n'
    check = "from coursekit.checks import visible\n\n\n" + check
    material = {
        "setup": "",
        "definitions": [],
        "solutions": [],
        "functions": [],
        "checks": check + textwrap.indent(source, "    "),
        "hidden": {},
        "seed": 0,
    }
    monkeypatch.setattr(judge_process, "material", lambda _: material)
    with contextlib.closing(judge_process.JudgeProcess(None)) as judge:
        said = judge.check("f", lambda question: {})
        return json.loads(said["message"].removeprefix("RuntimeError: "))


def test_a_forked_judge_is_contained_as_another_one_is(none_yet, monkeypatch):
    monkeypatch.setenv("SECRET", "ours")
    usual = judge_facts(monkeypatch)
    fork_server(start=True)
    forked = judge_facts(monkeypatch)
    given = judge_process.judge_box(None).environment
    for one in (usual, forked):
        found = one.pop("environment")  # libraries add some of their own
        assert {name: found[name] for name in given} == given
        assert "SECRET" not in found
    assert forked == usual
    assert not forked["seen"]
