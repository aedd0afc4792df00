"""The package `coursekit` is installed alone, as the README says, and plans a step."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import jax, jax.numpy as jnp
import coursekit
from coursekit.draw import draw_array
from coursekit.observe import observe
from coursekit.plan import plan
mesh = jax.sharding.AbstractMesh((8,), ("data",))
rows = jax.sharding.NamedSharding(mesh, jax.P("data"))
x = jax.ShapeDtypeStruct((64, 128), jnp.float32, sharding=rows)
print(coursekit.__file__)
print(plan(jax.jit(lambda x: x.sum(0)), x, on="h100:8"))
"""


@pytest.mark.slow
def test_the_package_is_installed_alone_and_plans_a_step(tmp_path):
    sources, target = tmp_path / "lessons", tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__", "ko", "*.ipynb")
    shutil.copytree(ROOT / "lessons", sources, ignore=ignored)
    uv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet"]
    install = [*uv, "--no-deps", "--target", str(target), str(sources)]
    subprocess.run(install, check=True, capture_output=True)
    env = {"PYTHONPATH": str(target), "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )
    where, planned, *_ = run.stdout.splitlines()
    assert Path(where).is_relative_to(target), run.stderr
    assert planned.startswith("h100:8: ") and planned.endswith(" a chip, fits")
