"""Loads a reference program as a module, or runs it as a script."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"


@pytest.fixture(scope="session", autouse=True)
def compiled_once(programs):
    """Has what many runs compile, here and in processes of their own, compiled once."""
    # A worker has a folder of its own: JAX reads an entry while another one writes it.
    found = programs(os.environ.get("PYTEST_XDIST_WORKER", "references"), writes=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in found.items():
            patch.setenv(name, text)
            is_number = text.lstrip("-").isdigit()
            jax.config.update(name.lower(), int(text) if is_number else text)
        yield


@pytest.fixture(scope="session")
def load():
    """The module of a program, by name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, REFERENCES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where Flax looks a class's annotations up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def run():
    """What a program prints as a script, line by line."""

    def run(name, *options):
        # As in a fresh shell: a program sets its own devices.
        names = ("XLA_FLAGS", "NPROC", "PJRT_NPROC")
        env = {name: text for name, text in os.environ.items() if name not in names}
        env["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # compiling is most of a short run
        script = [sys.executable, str(REFERENCES / f"{name}.py"), *options]
        done = subprocess.run(script, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="module")
def usual_promotion():
    """JAX as it comes, for libraries that mix dtypes and ranks in their own layers."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


# A child that dies, as by `kill -9`, right after it wrote metrics or a checkpoint.
DIES = """
import os, signal, sys
os.environ["XLA_FLAGS"] = {flags!r}
os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"
sys.path.append({references!r})
import full_pipeline
def dying(act, finish=lambda self: None):
    def last_act(self, step, *values):
        act(self, step, *values)
        if step == {step}:
            finish(self)
            os.kill(os.getpid(), signal.SIGKILL)
    return last_act
log, checkpoints = full_pipeline.Log, full_pipeline.Checkpoints
if {after!r} == "metrics":
    log.write = dying(log.write)
else:
    finish = lambda self: self.manager.wait_until_finished()
    checkpoints.save_state = dying(checkpoints.save_state, finish)
full_pipeline.fit(full_pipeline.Config(directory={directory!r}, **{settings!r}))
"""


@pytest.fixture
def kill_a_run():
    """Runs the full pipeline until it is killed right after a step."""

    def kill(directory, settings, after, step):
        program = DIES.format(
            flags=os.environ["XLA_FLAGS"],
            references=str(REFERENCES),
            directory=str(directory),
            after=after,
            step=step,
            settings=settings,
        )
        child = subprocess.run([sys.executable, "-c", program], capture_output=True)
        assert child.returncode == -signal.SIGKILL

    return kill
