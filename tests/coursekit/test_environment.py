"""JAX and XLA start with the right variables, here and in a child's process."""

import importlib.metadata
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from coursekit import environment
from coursekit.environment import (
    FAST_COMPILE_FLAGS,
    environment_of_a_child,
    in_colab,
    set_environment,
)

LESSONS = Path(environment.__file__).resolve().parents[1]
EIGHT = "--xla_force_host_platform_device_count=8"
FAST = " ".join(FAST_COMPILE_FLAGS)
FOUR = "--xla_force_host_platform_device_count=4"


@pytest.fixture(autouse=True)
def compile_as_learners_do(monkeypatch):
    monkeypatch.setattr(environment, "NEWEST_JAX_TRIED", (0, 12))  # not as conftest.py


def test_an_empty_environment_gets_the_count():
    env = {}
    assert set_environment(env, 8) == ""
    assert env["XLA_FLAGS"] == f"{FAST} {EIGHT}"


def test_other_flags_and_variables_are_kept():
    env = {"HOME": "/home/ada", "XLA_FLAGS": "--xla_dump_to=/d --xla_cpu_fast=false"}
    set_environment(env, 8)
    assert env["XLA_FLAGS"] == f"--xla_dump_to=/d --xla_cpu_fast=false {FAST} {EIGHT}"
    assert env["HOME"] == "/home/ada"


@pytest.mark.parametrize(
    ("env", "earlier"),
    [
        ({"XLA_FLAGS": FOUR}, "4"),
        ({"XLA_FLAGS": f"{FOUR} {EIGHT}"}, "4"),
        ({"XLA_FLAGS": EIGHT}, ""),
        ({"JAX_NUM_CPU_DEVICES": "4"}, "4"),
        ({"JAX_NUM_CPU_DEVICES": "8"}, ""),
        ({"XLA_FLAGS": EIGHT, "JAX_NUM_CPU_DEVICES": "4"}, "4"),
    ],
)
def test_an_earlier_count_is_replaced_and_reported(env, earlier):
    assert set_environment(env, 8) == earlier
    assert env["XLA_FLAGS"] == f"{FAST} {EIGHT}"
    assert "JAX_NUM_CPU_DEVICES" not in env


@pytest.mark.parametrize(
    ("jax_version", "platforms", "flags"),
    [
        ("0.12.7", "cpu", [*FAST_COMPILE_FLAGS, EIGHT]),
        ("0.13.0", "cpu", [EIGHT]),  # it may abort at a flag
        ("1.0", "cpu", [EIGHT]),
        ("0.12.7", "cuda", [EIGHT]),  # real devices run what is compiled
    ],
)
def test_programs_are_compiled_fast_where_that_is_safe_and_pays(
    jax_version, platforms, flags, monkeypatch
):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: jax_version)
    env = {"JAX_PLATFORMS": platforms}
    set_environment(env, 8)
    assert env["XLA_FLAGS"].split() == flags


def test_a_child_starts_its_own_jax_and_finds_what_is_compiled(monkeypatch):
    for name in ("XLA_FLAGS", "JAX_PLATFORMS", "JAX_ENABLE_X64", "OTHER"):
        monkeypatch.setenv(name, "1")
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"):
        monkeypatch.setenv(name, "2")
    env = environment_of_a_child()
    assert env["OTHER"] == "1" and "PATH" in env
    found = {name for name in env if name.startswith(("JAX_", "XLA_"))}
    assert found == {
        "JAX_COMPILATION_CACHE_DIR",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES",
    }


def test_colab_is_known_by_its_own_module(monkeypatch):
    monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    assert not in_colab()
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("colab"))
    assert in_colab()
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    assert not in_colab()


def test_another_package_of_the_name_google_is_not_colab(tmp_path):
    program = "from coursekit.environment import in_colab; print(in_colab())"
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{LESSONS}"}

    def said():
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=env, capture_output=True, text=True).stdout

    (tmp_path / "google" / "protobuf").mkdir(parents=True)
    assert said() == "False\n"
    (tmp_path / "google" / "colab").mkdir()
    assert said() == "True\n"
