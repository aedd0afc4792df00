"""Eight devices fit the line that one device fits, and it is nearly the true one."""

import jax
import numpy as np
import pytest


@pytest.fixture(scope="module")
def program(load):
    return load("pmap_linear_regression")


@pytest.fixture(scope="module")
def fitted(program):
    return program.train(*program.make_data(), num_devices=8)


def test_recovers_the_published_line(program, fitted):
    params = program.unreplicate(fitted[0])
    np.testing.assert_allclose(params, (2, -1), atol=0.1)
    assert params.weight.shape == ()


def test_equals_one_device(program, fitted):
    alone, value = program.train(*program.make_data(), num_devices=1)
    pairs = zip(program.unreplicate(fitted[0]), program.unreplicate(alone), strict=True)
    for many, one in pairs:
        np.testing.assert_allclose(many, one, atol=1e-5)
    assert fitted[1] == pytest.approx(value, abs=1e-5)


def test_is_the_least_squares_line(program, fitted):
    x, y = program.make_data()
    best = np.polyfit(np.float64(x), np.float64(y), 1)
    np.testing.assert_allclose(program.unreplicate(fitted[0]), best, atol=1e-3)


def test_replicas_stay_identical(fitted):
    for leaf in jax.device_get(fitted[0]):
        assert leaf.shape == (8,)
        assert np.ptp(leaf) == 0


def test_script_prints_and_plots_the_fit(run, tmp_path):
    path = tmp_path / "fit.png"
    printed = run("pmap_linear_regression", "--steps", "20", "--plot", str(path))
    assert printed[0] == "points: 128, 16 on each of 8 devices"
    assert printed[-1] == "spread over the replicas: 0.0"
    assert path.stat().st_size > 0
