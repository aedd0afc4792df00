"""Clusters are read from their names, and their links have the prices of sources."""

import pytest

from coursekit.plan.chips import CHIPS, PlanError, cluster, present


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("h100", (1, 1)),
        ("h100:8", (1, 8)),
        ("H200:2x8", (2, 8)),
        ("v5p:4x4x4", (4, 4, 4)),
        ("v5e:16x16", (16, 16)),
        ("v5e", (1, 1)),
    ],
)
def test_a_name_says_how_many_chips_there_are(name, shape):
    assert cluster(name).shape == shape


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a100:8", "There is no chip 'a100' in the table: use one of h100, h200, b200"),
        ("h100:64", 'at most 8 GPUs in a node, as in "h100:2x8"'),
        ("h100:2x2x2", "nodes x GPUs"),
        ("v5p:4x4", 'slices of v5p have 3 axes, as in "v5p:4x4x4"'),
        ("v5e:4x0", "sizes are numbers"),
        ("v5e:", None),
    ],
)
def test_what_is_no_cluster_is_refused_with_the_remedy(name, said):
    if said is None:
        assert cluster(name).num_chips == 1
        return
    with pytest.raises(PlanError, match=said.split("(")[0]):
        cluster(name)


def test_each_chip_has_a_source_and_the_name_that_jax_gives_it():
    for chip in CHIPS.values():
        assert chip.source and chip.kinds
        assert present(chip.kinds[0]) is chip
    assert present("cpu") is None


def row(on, count, axis=0):
    """Returns the places of so many chips along an axis of a torus."""
    here = [0] * len(on.shape)
    return [(*here[:axis], n, *here[axis + 1 :]) for n in range(count)]


# How to Scale Your Model, chapter 3: the answers, in seconds, to its questions.
@pytest.mark.parametrize(
    ("name", "kind", "shard", "size", "seconds"),
    [
        # Pop quiz 2: no wraparound, three hops of 8.4 MB.
        ("v5e:8x4", "all-gather", 2048 * 8192 * 2 / 4, 4, 560e-6),
        # Question 2; the book sends the chip's own part, too: 4 parts, not 3.
        ("v4:4x4x4", "all-gather", 1024 * 4096 * 2 / 16, 4, 23e-6 * 3 / 4),
    ],
)
def test_collectives_take_as_long_as_the_book_says(name, kind, shard, size, seconds):
    on = cluster(name)
    axis = on.shape.index(size)
    found = on.link(kind, (size - 1) * shard, row(on, size, axis))
    assert found.seconds == pytest.approx(seconds, rel=0.03)


def test_gpus_of_a_node_share_what_crosses_the_network():
    on, num_bytes = cluster("h100:16x8"), 1e9
    everyone = [(node, gpu) for node in range(16) for gpu in range(8)]
    one_each = [(0, 0), (1, 0)]
    alone = on.link("all-gather", num_bytes, one_each)
    together = on.link("all-gather", num_bytes, everyone)
    assert alone.name == together.name == "network"
    assert alone.seconds == pytest.approx(num_bytes / 50e9)
    assert together.seconds == pytest.approx(num_bytes * 128 / 127 * 15 / 16 / 8 / 50e9)
    inside = on.link("all-gather", num_bytes, everyone[:8])
    assert (inside.name, inside.seconds) == ("node", pytest.approx(1e9 / 450e9))


def test_a_permute_goes_the_short_way_around_a_ring():
    on = cluster("v5p:8x4x4")
    near, around, far = (
        on.link("collective-permute", 9e9, [(0, 0, 0), (to, 0, 0)]).seconds
        for to in (1, 7, 4)
    )
    assert (near, around, far) == pytest.approx((0.1, 0.1, 0.4))
