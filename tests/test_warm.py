"""A kernel that the fork server starts is like one of its own, and either can fail."""

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader import ROOT, judging, provisioner, warm
from grader.containment import Limits
from grader.session import Session

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
def no_server(monkeypatch):
    """Leaves kernels to start by themselves."""

    def refuse(*_):
        raise warm.ColdError("for this test")

    def switch():
        monkeypatch.setattr(provisioner, "shared", refuse)

    return switch


@pytest.fixture(autouse=True)
def not_the_first():
    """The first kernel of all would start by itself."""
    warm._shared[:] = warm._shared or [None]


@pytest.fixture
def own_server(contained_here, monkeypatch):
    """Where a test's own fork server comes to lie, which it may end."""
    monkeypatch.setattr(warm, "_shared", found := [None])
    monkeypatch.setattr(warm.atexit, "register", lambda _: None)
    yield found
    warm.close_shared()


def facts():
    with Session(LIMITS) as session:
        ran = session.run(FACTS)
        assert ran.error == ""
        return json.loads(ran.text)


def forked(session):
    return "True" in session.run("import sys; print('jax' in sys.modules)").text


def test_a_forked_kernel_finds_what_one_of_its_own_finds(contained_here, no_server):
    warmed = facts()
    no_server()
    cold = facts()
    for one in (warmed, cold):
        for name in ("PWD", "PYDEVD_USE_FRAME_EVAL"):  # of a start, and of an import
            one["environment"].pop(name, None)
        one["path"] = [path for path in one["path"] if not path.endswith(".zip")]
    assert warmed == cold


def test_modules_come_from_the_box_and_not_from_the_server(contained_here):
    code = (
        "import facts, sys\nprint(facts.__file__, facts.describe_call('f', [], None))"
    )
    with Session(LIMITS) as session:
        assert session.run(code).text == "/tmp/course/facts.py f()\n"
        linked = "import inspect; print(inspect.getsource(facts.describe_call)[:3])"
        assert session.run(linked).text == "def\n"


def test_a_box_with_other_modules_has_its_own(contained_here, tmp_path):
    for path in provisioner.learner_modules():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    with (tmp_path / "lessons" / "facts.py").open("a") as file:
        file.write("\nADDED = 'here alone'\n")
    code = "import facts; print(getattr(facts, 'ADDED', None))"
    with Session(LIMITS, root=tmp_path) as session:
        assert forked(session)
        assert session.run(code).text == "here alone\n"


def test_nothing_of_one_kernel_is_left_for_the_next(own_server):
    with Session(LIMITS) as session:
        session.run("import jax; jax.config.update('jax_enable_x64', True)")
        session.run("jax.left = open('/tmp/left', 'w'); open('/dev/shm/left', 'w')")
    code = """
import jax, os
left = [os.path.exists(f"{folder}/left") for folder in ("/tmp", "/dev/shm")]
print(jax.config.jax_enable_x64, hasattr(jax, "left"), *left)
"""
    with Session(LIMITS) as session:
        assert session.run(code).text == "False False False False\n"
    assert len(own_server) == 1


def test_one_kernel_alone_starts_by_itself(own_server):
    own_server.clear()
    with Session(LIMITS) as session:
        assert not forked(session)
    assert own_server == [None]
    with Session(LIMITS) as session:
        assert forked(session)


def test_sessions_side_by_side_share_one_server(own_server, monkeypatch):
    made, make = [], warm.ForkServer
    monkeypatch.setattr(
        warm, "ForkServer", lambda *a: made.append(make(*a)) or made[-1]
    )
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(warm.shared, "/tmp/course", [], {}) for _ in range(4)]
    assert {one.result() for one in asked} == {*made}
    assert len(made) == 1


def test_a_server_that_has_ended_is_replaced(own_server):
    with Session(LIMITS) as session:
        assert forked(session)
    own_server[0].process.kill()
    with Session(LIMITS) as session:  # this one starts by itself
        assert session.run("print(1)").text == "1\n"
    with Session(LIMITS) as session:
        assert forked(session)


def test_a_server_that_cannot_enter_boxes_is_done_without(own_server, monkeypatch):
    holder = warm.holder
    wrong = {"box": os.getpid() + 10**7}
    monkeypatch.setattr(provisioner, "holder", lambda held: holder(held) | wrong)
    with Session(LIMITS) as session:
        assert not forked(session)


def test_a_box_that_does_not_stand_is_an_error_at_once():
    ours, theirs = warm.line()
    theirs.close()
    with ours, pytest.raises(warm.ColdError, match="did not come to stand"):
        warm.holder(ours)


def test_where_many_will_come_the_first_kernel_need_not_start_cold(
    contained_here, monkeypatch
):
    monkeypatch.setattr(warm, "_shared", [])
    provisioner.warm_up()
    try:
        assert warm._shared[0].alive
    finally:
        warm.close_shared()


LOOK = """
import json, os, resource
kinds = ("AS", "CPU", "NPROC", "NOFILE", "FSIZE", "CORE")
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status"))
wanted = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
found = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "limits": [resource.getrlimit(getattr(resource, f"RLIMIT_{k}")) for k in kinds],
    "rights": {name: status[name].strip() for name in wanted},
    "stranger": os.getuid() >= 1_900_000_000 or os.getuid() == HOST,
    "files": sorted(os.listdir("/")),
    "net": sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys") else [],
    "others": len([name for name in os.listdir("/proc") if name.isdigit()]) < 9,
    "seen": os.path.exists(COURSE + "/solutions"),
}
raise expect.Wrong(json.dumps(found))
"""


def judge_facts(monkeypatch):
    """What a check sees of the process that it runs in."""
    source = f"COURSE, HOST = {str(ROOT)!r}, {os.getuid()}\n{LOOK}"
    source = "import expect\n" + source
    material = {
        "setup": "",
        "definitions": [],
        "functions": [],
        "checks": {"f": source},
    }
    monkeypatch.setattr(judging, "material", lambda _: material)
    with contextlib.closing(judging.JudgeProcess(None)) as judge:
        said = judge.check("f", lambda question: {})
        return json.loads(said["message"].removeprefix("Wrong: "))


def test_a_forked_judge_is_contained_as_one_of_its_own(own_server, monkeypatch):
    monkeypatch.setenv("SECRET", "ours")
    with pytest.raises(warm.ColdError):
        warm.standing()
    cold = judge_facts(monkeypatch)
    assert own_server == [None]  # for a judge alone no server is made
    provisioner.warm_up()
    warmed = judge_facts(monkeypatch)
    given = judging.judge_box(None).environment
    for one in (cold, warmed):
        found = one.pop("environment")  # libraries add some of their own
        assert {name: found[name] for name in given} == given
        assert "SECRET" not in found
    assert warmed == cold
    assert not warmed["seen"]


def test_a_judge_starts_by_itself_where_the_server_has_ended(own_server, monkeypatch):
    provisioner.warm_up()
    own_server[0].process.kill()
    assert judge_facts(monkeypatch)["others"]


@pytest.mark.parametrize(("graded", "warms"), [(0, True), (1, True), (2, False)])
def test_a_class_with_many_that_wait_is_warmed_up_for(
    tmp_path, monkeypatch, graded, warms
):
    called = []
    monkeypatch.setattr(provisioner, "warm_up", lambda: called.append(True))
    for number in range(5):
        (tmp_path / "submitted" / f"learner{number}" / "01_tiny").mkdir(parents=True)
    (tmp_path / "grading" / "published" / "01_tiny").mkdir(parents=True)
    for number in range(graded):
        (tmp_path / "grading/published/01_tiny" / f"learner{number}").touch()
    provisioner.warm_up_for(tmp_path)
    assert called == [True] * warms
