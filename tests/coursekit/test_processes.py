"""A script runs as several processes, which end together, and says how."""

import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit import environment, processes
from coursekit.environment import FAST_COMPILE_FLAGS
from coursekit.processes import cause, count_devices, run_script
from coursekit.script import write_script


def add_up(directory):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, P("data"))
    numbers = np.arange(16.0, dtype=np.float32)
    x = jax.make_array_from_callback((16,), rows, lambda index: numbers[index])
    total = float(jax.jit(jnp.sum)(x))
    name = f"{jax.process_index()} of {jax.process_count()}"
    Path(directory, name).write_text(
        f"{total:g} on {jax.local_device_count()}", encoding="utf-8"
    )


def wait_for_ever(directory):
    Path(directory, f"{jax.process_index()}").touch()
    while True:
        pass


def die(directory):
    Path(directory, f"{jax.process_index()}").touch()
    if jax.process_index() == jax.process_count() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    wait_for_ever(directory)


def fail(directory):
    if jax.process_index() == 1:
        raise ValueError("a batch of 12 does not divide by 8.")
    wait_for_ever(directory)


def tell_flags(directory):
    Path(directory, "flags").write_text(os.environ["XLA_FLAGS"], encoding="utf-8")


@pytest.fixture
def script(tmp_path):
    def write(function):
        write_script(tmp_path / "script.py", function)
        return tmp_path / "script.py"

    return write


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "results"
    path.mkdir()
    return path


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("num_processes", [1, 2])
def test_processes_share_the_devices_and_compute_together(
    script, folder, num_processes
):
    settings = {"directory": str(folder)}
    assert run_script(script(add_up), settings, num_processes) == "finished"
    on_each = f"120 on {8 // num_processes}"
    assert contents(folder) == {
        f"{number} of {num_processes}": on_each for number in range(num_processes)
    }


@pytest.mark.parametrize(
    ("num_processes", "said"),
    [
        (1, "The process was killed by SIGKILL."),
        (2, "Process 1 of 2 was killed by SIGKILL; the others were ended."),
    ],
)
def test_a_kill_ends_all_and_is_told(script, folder, num_processes, said):
    assert run_script(script(die), {"directory": str(folder)}, num_processes) == said


def test_an_error_of_one_process_ends_all_and_is_told(script, folder):
    assert run_script(script(fail), {"directory": str(folder)}, 2) == (
        "Process 1 of 2 ended with code 1: ValueError: a batch of 12 does not divide "
        "by 8; the others were ended."
    )


@pytest.mark.parametrize(
    ("codes", "first"),
    [
        ((0, 0), None),
        ((None, 0), None),
        ((-signal.SIGABRT, -signal.SIGKILL), 1),
        ((-signal.SIGABRT, 1), 1),
        ((1, -signal.SIGKILL), 1),
        ((None, -signal.SIGABRT), 1),
        ((0, 2, -signal.SIGTERM), 2),
    ],
)
def test_the_cause_of_an_end_is_not_the_partner_that_it_took_along(codes, first):
    assert cause(codes) == first


def test_what_does_not_finish_is_ended(script, folder):
    settings = {"directory": str(folder)}
    found = run_script(script(wait_for_ever), settings, timeout_s=0.1)
    assert found == "Ended after 0.1 s: it did not finish."


def test_a_script_compiles_with_the_flags_of_its_starter(script, folder, monkeypatch):
    flags = "--xla_backend_optimization_level=1 {}=8"
    count = "--xla_force_host_platform_device_count"
    monkeypatch.setenv("XLA_FLAGS", flags.format(count))
    monkeypatch.setattr(environment, "NEWEST_JAX_TRIED", (0, 12))  # not as conftest.py
    settings = {"directory": str(folder)}
    assert run_script(script(tell_flags), settings, num_devices=2) == "finished"
    said = (folder / "flags").read_text()
    level, *others, devices = said.split()
    assert level == "--xla_backend_optimization_level=1"
    assert others == [*FAST_COMPILE_FLAGS[1:]]
    assert devices == f"{count}=2"


def test_devices_that_do_not_divide_are_named(tmp_path):
    with pytest.raises(ValueError, match="8 devices do not divide among 3 processes"):
        run_script(tmp_path / "script.py", {}, 3)


def test_devices_are_counted_in_a_fresh_process():
    assert count_devices({}) == 1
    assert count_devices({"JAX_NUM_CPU_DEVICES": 2, "PATH": "", "HOME": "/ada"}) == 2
    error = count_devices({"XLA_FLAGS": "--xla_no_such_flag=1"})
    assert "--xla_no_such_flag=1" in error


def test_a_process_that_does_not_answer_is_given_up():
    assert count_devices({}, timeout_s=0) == "no answer within 0 s"


@pytest.mark.parametrize(
    ("waited", "ended"),
    [(60, "finished"), (0, "Ended after 0.01 s: it did not finish.")],
)
def test_the_time_limit_leaves_out_what_a_busy_machine_makes_a_process_wait(
    waited, ended, script, folder, monkeypatch
):
    monkeypatch.setattr(processes, "waited_s", lambda child: waited)
    settings = {"directory": str(folder)}
    assert run_script(script(tell_flags), settings, timeout_s=0.01) == ended
