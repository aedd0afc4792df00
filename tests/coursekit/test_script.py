"""A notebook's function becomes a script that runs elsewhere with all that it uses."""

import functools
import json
import os
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
ANY_VALUES = """
from __future__ import annotations
import functools, logging, operator, os
from math import *
import xml.dom
===
import xml.sax, os
import os
===
half = functools.partial(operator.mul, 0.5)
MISSING, second = object(), operator.itemgetter(1)
Rows = tuple[int, ...]
log = logging.getLogger("run")
SIZES = {"a": 1}
def size_of(name, default=MISSING):
    return name if default is MISSING else SIZES[name]
===
SIZES["b"] = 2
SIZES |= {"c": 3}
os.environ["HERE_ALONE"] = "1"
===
%%time
def below_a_magic(rows: Rows) -> NeverDefined:
    return second(rows), half(4), ceil(1.5), log.name
===
RATE = not_defined_yet
===
def scaled(numbers):
    return [RATE * number for number in numbers]
===
RATE = 3
===
TABLE = scaled([1, 2])
===
RATE = 5
===
def report(path):
    found = [below_a_magic((8, 9)), scaled([1]), TABLE, sorted(SIZES), size_of("x")]
    found += [xml.dom.__name__, xml.sax.__name__]
    found.append(os.environ.get("HERE_ALONE", "") if "there" in path else "")
    with open(path, "w") as file:
        file.write(repr(found))
===
from coursekit.script import write_script
write_script(TO, report)
report(HERE)
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


def uses_values():
    print([float(half(2)) * row for row in ROWS.tolist()] + [RATE * 6])


def uses_nothing_known():
    return not_defined_yet()  # noqa: F821


IN_KOREAN = """
from pathlib import Path
from coursekit.processes import run_script
from coursekit.script import write_script

def train():  # 합을 구한다
    raise ValueError("행이 없다.")

if __name__ == "__main__":
    write_script("train.py", train)
    Path("said").write_text(run_script("train.py", {}), encoding="utf-8")
"""


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
    values = 'RATE, NAMES, LIMIT = 0.5, ("data", None), 2\n'
    for once in (
        "from jax.sharding import PartitionSpec as P\n",
        "import jax.numpy as jnp\n",
        values,
        "@jax.jit\ndef halved",
    ):
        assert text.count(once) == 1
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
    done = by_shell(tmp_path, cells)
    there = run(tmp_path / "run.py", json.dumps({"path": "there"}))
    assert there.returncode == 0, (done.stdout, there.stderr)
    text = (tmp_path / "run.py").read_text()
    assert text.count("class Damaged") == text.count("seen: bool = True") == 1
    assert text.index("class Facts") < text.index("class Damaged")
    [there, here] = [(tmp_path / name).read_text() for name in ("there", "here")]
    assert there == here == "Facts(step=5)"


def by_shell(folder, cells, history=True):
    """Runs cells in IPython's shell, without a kernel; returns what it said."""
    lessons = str(Path(script.__file__).parents[1])
    shell = f"import sys\nsys.path.insert(0, {lessons!r})\n"
    shell += "from IPython.core.interactiveshell import InteractiveShell as Shell\n"
    shell += f"for cell in {cells!r}:\n"
    shell += f"    Shell.instance().run_cell(cell, store_history={history})"
    return run(folder / "shell.py", text=shell)


def test_a_client_that_asks_for_no_history_has_its_cells_written(tmp_path):
    """As nbval does, which tests the notebooks."""
    path, there = tmp_path / "run.py", tmp_path / "there"
    cells = ["from coursekit.script import write_script\nADDED = 2"]
    cells += ["def double(x):\n    return 2 * x"]
    cells += ["def save(path):\n    open(path, 'w').write(str(double(ADDED)))"]
    cells += [f"write_script({str(path)!r}, save)"]
    done = by_shell(tmp_path, cells, history=False)
    assert run(path, json.dumps({"path": str(there)})).returncode == 0, done.stdout
    assert there.read_text() == "4"


def test_values_of_every_kind_come_along_as_the_cells_left_them(tmp_path):
    names = f"TO, HERE = {str(tmp_path / 'run.py')!r}, {str(tmp_path / 'here')!r}"
    done = by_shell(tmp_path, [names, *ANY_VALUES.split("===\n")])
    there = run(tmp_path / "run.py", json.dumps({"path": "there"}))
    assert there.returncode == 0, (done.stdout, there.stderr)
    [there, here] = [(tmp_path / name).read_text() for name in ("there", "here")]
    first = "[(9, 2.0, 2, 'run'), [5], [3, 6], ['a', 'b', 'c'], 'x', "
    assert there == here == f"{first}'xml.dom', 'xml.sax', '']"
    text = (tmp_path / "run.py").read_text()
    assert text.count("\nimport os\n") == 1 and "not_defined_yet" not in text


def test_values_of_a_module_come_along(tmp_path):
    write_script(tmp_path / "script.py", uses_values)
    found = run(tmp_path / "script.py", "{}")
    assert (found.stdout, found.stderr) == ("[0.0, 1.0, 2.0, 3.0]\n", "")


def test_a_script_is_utf_8_whatever_the_computer_writes(tmp_path):
    (tmp_path / "own.py").write_text(IN_KOREAN, encoding="utf-8")
    lessons = str(Path(script.__file__).parents[1])
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env = os.environ | ascii_alone | {"PYTHONPATH": lessons}
    command = [sys.executable, str(tmp_path / "own.py")]
    done = subprocess.run(command, capture_output=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert said == "The process ended with code 1: ValueError: 행이 없다."


def test_a_function_that_no_cell_defines_is_named_with_the_remedy(tmp_path):
    exec("def made(): pass", made := {"__name__": "__main__"})
    with pytest.raises(ValueError, match="source of made is not found: run its cell"):
        write_script(tmp_path / "script.py", made["made"])
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
