"""The pipeline recovers its weights, as one device does, from fresh batches."""

from itertools import islice

import jax
import numpy as np
import pytest


@pytest.fixture(scope="module")
def program(load):
    return load("sharded_pipeline")


@pytest.fixture(scope="module")
def data(program):
    return program.make_data()


@pytest.fixture(scope="module")
def trained(program, data):
    x, y, _ = data
    return program.train(x, y, program.make_mesh(8))


def test_recovers_the_weights_to_noise_level(program, data, trained):
    params, true = jax.device_get(trained[0]), data[2]
    assert np.abs(params["w"] - true["w"]).max() < program.NOISE / 10
    assert abs(params["b"] - true["b"]) < program.NOISE / 10
    assert trained[1][-1][1] == pytest.approx(program.NOISE**2, rel=0.2)


def test_equals_one_device(program, data, trained):
    x, y, _ = data
    alone, losses = program.train(x, y, program.make_mesh(1))
    for name, leaf in jax.device_get(alone).items():
        np.testing.assert_allclose(trained[0][name], leaf, atol=1e-5)
    np.testing.assert_allclose(trained[1], losses, rtol=1e-3)


def test_loss_is_told_every_fifty_steps(trained):
    assert [number for number, _ in trained[1]] == [*range(0, 500, 50), 499]


def test_an_epoch_sees_every_row_once_and_the_next_in_another_order(program):
    rows = np.arange(4096)
    chosen = [batch for batch, _ in islice(program.batches(rows, rows, 256), 32)]
    first, second = np.concatenate(chosen[:16]), np.concatenate(chosen[16:])
    np.testing.assert_array_equal(np.sort(first), rows)
    np.testing.assert_array_equal(np.sort(second), rows)
    assert (first != second).any()


def test_the_sources_one_batch_recovers_less(program, data, trained):
    x, y, true = data
    stale, _ = program.train(x[:256], y[:256], program.make_mesh(8))
    errors = [np.abs(p["w"] - true["w"]).max() for p in (stale, trained[0])]
    assert errors[0] > 2 * errors[1]


def test_checkpoint_comes_back_on_another_mesh(program, trained, tmp_path):
    path = tmp_path / "params"
    program.save(path, trained[0])
    kept = program.restore(path, program.make_mesh(4))
    assert len(kept["w"].addressable_shards) == 4
    for name in ("w", "b"):
        np.testing.assert_array_equal(kept[name], trained[0][name])


def test_script_keeps_a_checkpoint(run, tmp_path):
    path = tmp_path / "params.npz"
    printed = run("sharded_pipeline", "--steps", "60", "--checkpoint", str(path))
    steps = [line.split()[1] for line in printed if line.startswith("step")]
    assert steps == ["0", "50", "59"]
    with np.load(path) as kept:
        assert kept["w"].shape == (32,)
