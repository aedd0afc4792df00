"""Lesson 5's `set_aside` moves no checkpoint that one process alone cannot read."""

import ast
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "solutions" / "05_full_pipeline.py"


def nobody_comes(*arguments, **options):
    raise TimeoutError


def test_nothing_moves_before_all_processes_have_come(tmp_path):
    own = [
        node
        for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "set_aside"
    ]
    multihost = SimpleNamespace(sync_global_processes=nobody_comes)
    lesson = {"Path": Path, "jax": jax, "ocp": SimpleNamespace(multihost=multihost)}
    exec(compile(ast.Module(own, []), SOURCE, "exec"), lesson)
    (tmp_path / "40").mkdir()
    manager = SimpleNamespace(directory=tmp_path, all_steps=lambda: [20, 40])
    with pytest.raises(TimeoutError):
        lesson["set_aside"](manager, 40)
    assert [path.name for path in tmp_path.iterdir()] == ["40"]
