"""What a solution compiled is found by untrusted code, which can change none of it."""

import errno
from pathlib import Path

import printed
import pytest

from coursekit import environment
from coursekit.environment import FAST_COMPILE_FLAGS
from grader.containment.limits import Limits
from grader.kernel import compile_cache
from grader.kernel.session import Session

LIMITS = Limits(wall_s=40)
JAX = """
import sys; sys.path.append(".")  # where a trusted kernel's modules lie
from coursekit import setup; setup.with_devices(8)
import jax, numpy as np
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
f = jax.pmap(lambda x: 3 * x + NUMBER)
print("result:", float(f(np.ones(8, np.float32))[7]))
asked, hits = (
    sum(event.endswith(end) for event in events)
    for end in ("compile_requests_use_cache", "cache_hits")
)
print("asked and missed:", asked > 0, asked - hits)
"""
HASHES = {"lesson": "a", "packages": "b", "grader": "c"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what one program compiles."""
    folder = tmp_path_factory.mktemp("compiled")
    with Session(LIMITS, trusted=True, compiled=folder) as session:
        said = printed.run(session, JAX.replace("NUMBER", "1"))
        assert said.error == "" and "result: 4.0\n" in said.text
    folder.chmod(0o755)
    assert len([*folder.iterdir()]) > 0
    return folder


def test_the_same_program_of_a_learner_is_found(folder, contained_here):
    with Session(LIMITS, compiled=folder) as session:
        said = printed.run(
            session,
            JAX.replace("NUMBER", "1").replace(
                "lambda x: 3 * x", "lambda row: 3 * row"
            ),
        )
    assert said.error == ""
    assert said.text.endswith("result: 4.0\nasked and missed: True 0\n")


def test_another_program_is_compiled_without_a_word(folder, contained_here):
    before = sorted(folder.iterdir())
    with Session(LIMITS, compiled=folder) as session:
        said = printed.run(session, JAX.replace("NUMBER", "2"))
    assert said.text.endswith("result: 5.0\nasked and missed: True 1\n")
    assert "arn" not in said.text  # neither warnings nor Warning
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("trusted", [False, True])
def test_both_sides_compile_without_optimization(folder, contained_here, trusted):
    code = JAX.replace("NUMBER", "1") + "import os; print(os.environ['XLA_FLAGS'])"
    with Session(LIMITS, trusted=trusted, compiled=folder) as session:
        said = printed.run(session, code)
    assert {*FAST_COMPILE_FLAGS} <= set(said.text.split())


def test_a_jax_that_nobody_tried_gets_no_flags_that_xla_may_not_know(monkeypatch):
    monkeypatch.setattr(environment, "jax_version", lambda: (0, 99))
    assert compile_cache.variables()["XLA_FLAGS"] == ""


def test_untrusted_code_can_write_nothing_there(folder, contained_here):
    first = next(folder.iterdir()).name
    code = f"""
import os
os.chdir("/tmp/compiled")
for act in (
    lambda: open("new", "w"),
    lambda: open("{first}", "r+"),
    lambda: os.remove("{first}"),
    lambda: os.rename("{first}", "other"),
    lambda: os.chmod(".", 0o777),
):
    try:
        act()
        print("done")
    except OSError as error:
        print(error.errno)
"""
    with Session(LIMITS, compiled=folder) as session:
        numbers = {int(word) for word in printed.run(session, code).text.split()}
    assert numbers <= {errno.EROFS, errno.EPERM, errno.EACCES}


def test_what_a_learner_sets_for_the_cache_is_put_back(folder, contained_here):
    code = """
__import__("grader.kernel.inside.responder")
import jax
before = jax.config.jax_compilation_cache_dir
jax.config.update("jax_compilation_cache_dir", "/tmp/mine")
from grader.kernel.inside import responder; responder.settings.restore()
print(before, jax.config.jax_compilation_cache_dir)
"""
    with Session(LIMITS, compiled=folder) as session:
        assert printed.run(session, code).text == "/tmp/compiled /tmp/compiled\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_folder_belongs_to_lesson_packages_and_processor_but_to_no_class(
    home, monkeypatch
):
    first = compile_cache.find(HASHES)
    for name in ("grader", "seed"):
        assert first == compile_cache.find(HASHES | {name: "another"})
    others = [
        compile_cache.find(HASHES | {name: "x"}) for name in ("lesson", "packages")
    ]
    monkeypatch.setattr(compile_cache, "processor", lambda: b"another")
    others.append(compile_cache.find(HASHES))
    assert len({first, *others}) == 4
    assert first.is_relative_to(home)


def test_it_is_made_once_and_whole(home):
    calls = []

    def run(folder):
        calls.append(folder)
        (folder / "entry").write_text("compiled")

    folder = compile_cache.find(HASHES)
    for _ in range(2):
        compile_cache.fill(folder, run)
    assert len(calls) == 1 and calls[0] != folder
    assert [path.name for path in folder.iterdir()] == ["entry"]
    assert [*folder.parent.iterdir()] == [folder]


def test_a_try_that_fails_leaves_nothing(home):
    folder = compile_cache.find(HASHES)

    def fail(part):
        (part / "entry").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_cache.fill(folder, fail)
    assert [*folder.parent.iterdir()] == []


def test_one_that_another_process_made_meanwhile_is_taken(home):
    folder = compile_cache.find(HASHES)

    def run(part):
        folder.mkdir()
        (folder / "theirs").touch()

    compile_cache.fill(folder, run)
    assert [path.name for path in folder.iterdir()] == ["theirs"]
    assert [*folder.parent.iterdir()] == [folder]


def test_without_a_place_to_write_all_is_compiled(home, monkeypatch):
    (home / "distributed-jax-course").write_text("a file where a folder belongs")
    folder = compile_cache.find(HASHES)
    compile_cache.fill(folder, Path.touch)
    assert not folder.exists()
