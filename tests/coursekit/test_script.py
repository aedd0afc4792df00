"""A notebook's function becomes a script that runs elsewhere with all that it uses."""

import functools
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from coursekit import script
from coursekit.script import write_script

RATE, NAMES, LIMIT = 0.5, ("data", None), 2
CELLS = """
class Facts(NamedTuple):
    step: int = 3
===
@dataclass
class Damaged(Exception):
    facts: Facts
===
class Damaged(Exception
===
def restore(path):
    try:
        raise Damaged(Facts(START))
    except Damaged as error:
        Path(path).write_text(str(error.facts))
===
@dataclass(frozen=True)
class Damaged(Exception):
    facts: Facts
    seen: bool = True
===
START = 5
write_script(TO, restore)
restore(HERE)
"""
ROWS = np.arange(3)
half = functools.partial(jnp.multiply, RATE)


@jax.jit
def halved(x):
    return x * RATE


def countdown(number, step=LIMIT):
    return number if number < step else countdown(number - step)


def names():
    return [str(entry) for entry in P(*NAMES)]


def train(path, number):
    """Writes what the functions around it give.

    Further words are left out.
    """

    def inner():
        return [float(halved(jnp.float32(number))), countdown(number), names()]

    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(inner()))


def uses_an_array():
    return ROWS


def uses_a_partial():
    return half(2)


def uses_through_another():
    return uses_an_array()


def uses_nothing_known():
    return not_defined_yet()  # noqa: F821


def run(path, *arguments, text=None):
    if text:
        path.write_text(text)
    command = [sys.executable, str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parent)


def test_a_script_does_what_the_function_does(tmp_path):
    path = tmp_path / "train.py"
    write_script(path, train)
    found = run(path, json.dumps({"path": "out.json", "number": 5}))
    assert found.returncode == 0, found.stderr
    train(tmp_path / "here.json", 5)
    [there, here] = [(tmp_path / n).read_text() for n in ("out.json", "here.json")]
    assert json.loads(there) == json.loads(here) == [2.5, 1, ["data", "None"]]


def test_a_script_reads_as_if_a_person_had_written_it(tmp_path):
    path = tmp_path / "train.py"
    write_script(path, train)
    text = path.read_text()
    assert text.startswith('"""Writes what the functions around it give.\n')
    assert "Further words" not in text.split('"""')[1]
    assert "    python train.py SETTINGS " in text
    assert re.search(
        r"^from jax(\.sharding)? import (PartitionSpec as )?P$", text, re.M
    )
    assert "import jax.numpy as jnp\n" in text
    assert text.count("RATE = 0.5\n") == text.count("def halved") == 1
    for absent in ("ROWS", "pytest", "half ="):
        assert absent not in text


def test_a_class_of_a_notebook_comes_along_as_it_was_defined_last(tmp_path):
    imports = """
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from coursekit.script import write_script
"""
    names = f"TO, HERE = {str(tmp_path / 'run.py')!r}, {str(tmp_path / 'here')!r}"
    cells = [imports, names, *CELLS.split("===")]
    lessons = str(Path(script.__file__).parents[1])
    shell = f"import sys\nsys.path.insert(0, {lessons!r})\n"
    shell += "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
    shell += f"for cell in {cells!r}:\n    Shell.instance().run_cell(cell)"
    done = run(tmp_path / "shell.py", text=shell)
    there = run(tmp_path / "run.py", json.dumps({"path": "there"}))
    assert there.returncode == 0, (done.stdout, there.stderr)
    text = (tmp_path / "run.py").read_text()
    assert text.count("class Damaged") == text.count("seen: bool = True") == 1
    assert text.index("class Facts") < text.index("class Damaged")
    [there, here] = [(tmp_path / name).read_text() for name in ("there", "here")]
    assert there == here == "Facts(step=5)"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (uses_an_array, "uses_an_array uses ROWS, a ndarray,"),
        (uses_a_partial, "uses_a_partial uses half, a partial,"),
        (uses_through_another, "uses_an_array uses ROWS, a ndarray,"),
    ],
)
def test_what_cannot_be_written_is_named_with_the_remedy(tmp_path, function, said):
    with pytest.raises(ValueError, match=f"{said}.*make it inside a function"):
        write_script(tmp_path / "script.py", function)
    assert not list(tmp_path.iterdir())


def test_a_name_that_nobody_defined_stays_an_error_of_the_script(tmp_path):
    write_script(tmp_path / "script.py", uses_nothing_known)
    assert "NameError" in run(tmp_path / "script.py", "{}").stderr


def fails_in_jax():
    import jax

    jax.jit(lambda x: x.reshape(3))(np.ones(4))


def test_the_last_line_of_what_fails_in_jax_is_the_error(tmp_path):
    write_script(tmp_path / "script.py", fails_in_jax)
    *_, last = run(tmp_path / "script.py", "{}").stderr.strip().splitlines()
    assert last.startswith("TypeError: ")


def test_a_port_of_another_process_is_told_before_anything_starts(tmp_path):
    write_script(tmp_path / "script.py", names)
    with socket.socket() as other:
        other.bind(("localhost", 0))
        other.listen()
        port = other.getsockname()[1]
        found = run(tmp_path / "script.py", "{}", f"localhost:{port}", "2", "0")
    assert found.returncode == 1
    assert found.stderr.strip() == (
        f"Port {port} belongs to another process: choose another."
    )
