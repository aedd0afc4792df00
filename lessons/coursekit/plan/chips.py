"""Chips, and clusters of them: what they compute, hold and send in a second."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..notice import Notice

GB = 1e9
NODE = 8  # GPUs that share fast links, in all machines of the table


class PlanError(Notice):
    """There is no plan; the text names the value and the remedy."""


@dataclasses.dataclass(frozen=True)
class Chip:
    """One chip, by its makers' figures. Bytes a second are one way.

    Attributes:
        name: as people write it.
        kinds: what JAX calls such devices.
        flops: a second, of dense bfloat16 products; twice that in 8 bits.
        flops_32: of float32 products as JAX does them by default: in TF32 on a GPU,
            in one pass of bfloat16 on a TPU.
        reached: the largest share of these that matrix products were measured to reach.
        memory: bytes.
        memory_rate: bytes of memory read or written a second.
        link_rate: bytes a second of one chip: to its node (GPU), of one link (TPU).
        network_rate: bytes a second of one GPU to other nodes; 0 in a TPU's slice.
        axes: of a TPU's torus; 0 for GPUs, whose nodes have switches.
        ring: the size of which an axis must be a multiple to close to a ring.
        clock: cycles a second of a TPU, in which its compiler estimates.
        tpu_name: what the compiler of TPUs calls it.
        source: where the figures are from.
    """

    name: str
    kinds: tuple[str, ...]
    flops: float
    flops_32: float
    reached: float
    memory: float
    memory_rate: float
    link_rate: float
    network_rate: float = 0.0
    axes: int = 0
    ring: int = 0
    clock: float = 0.0
    tpu_name: str = ""
    source: str = ""

    def rate(self, dtype: str) -> float:
        """FLOP/s of products of a dtype, in short: bf16."""
        bits = int((re.findall(r"\d+", dtype) or [32])[0])
        return {8: 2 * self.flops, 16: self.flops}.get(bits, self.flops_32)


MAMF = "github.com/stas00/ml-engineering, compute/accelerator, MAMF"
BOOK = "jax-ml.github.io/scaling-book/tpus"
INFO = "jax/_src/pallas/mosaic/tpu_info.py"
DOCS = "docs.cloud.google.com/tpu/docs"
CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            name="h100",
            kinds=("NVIDIA H100 80GB HBM3",),
            flops=989e12,
            flops_32=494.5e12,
            reached=0.80,
            memory=80 * GB,
            memory_rate=3.35e12,
            link_rate=450 * GB,
            network_rate=50 * GB,
            source=f"NVIDIA's data sheet (SXM) and DGX H100 guide; reached: {MAMF}",
        ),
        Chip(
            name="h200",
            kinds=("NVIDIA H200",),
            flops=989e12,
            flops_32=494.5e12,
            reached=0.80,
            memory=141 * GB,
            memory_rate=4.8e12,
            link_rate=450 * GB,
            network_rate=50 * GB,
            source=f"NVIDIA's data sheet (SXM) and DGX H200 guide; reached: {MAMF}",
        ),
        Chip(
            name="b200",
            kinds=("NVIDIA B200",),
            flops=2250e12,
            flops_32=1125e12,
            reached=0.78,
            memory=180 * GB,
            memory_rate=8e12,
            link_rate=900 * GB,
            network_rate=50 * GB,
            source=f"NVIDIA's DGX B200 data sheet, an eighth of it; reached: {MAMF}",
        ),
        Chip(
            name="mi300x",
            kinds=("AMD Instinct MI300X",),
            flops=1307.4e12,
            flops_32=653.7e12,
            reached=0.51,
            memory=192 * GB,
            memory_rate=5.3e12,
            link_rate=448 * GB,
            network_rate=50 * GB,
            source=f"AMD's data sheet; seven links of 64 GB/s; reached: {MAMF}",
        ),
        Chip(
            name="v4",
            kinds=("TPU v4",),
            flops=275e12,
            flops_32=275e12,
            reached=0.95,
            memory=34.4 * GB,
            memory_rate=1.2e12,
            link_rate=45 * GB,
            axes=3,
            ring=4,
            clock=1.05e9,
            tpu_name="v4",
            source=f"{BOOK}; memory: {INFO}",
        ),
        Chip(
            name="v5e",
            kinds=("TPU v5 lite",),
            flops=197e12,
            flops_32=197e12,
            reached=0.95,
            memory=17.2 * GB,
            memory_rate=8.1e11,
            link_rate=45 * GB,
            axes=2,
            ring=16,
            clock=1.5e9,
            tpu_name="v5e",
            source=f"{BOOK}; memory: {INFO}",
        ),
        Chip(
            name="v5p",
            kinds=("TPU v5",),
            flops=459e12,
            flops_32=459e12,
            reached=0.95,
            memory=103 * GB,
            memory_rate=2.8e12,
            link_rate=90 * GB,
            axes=3,
            ring=4,
            clock=1.75e9,
            tpu_name="v5p",
            source=f"{BOOK}; memory: {INFO}",
        ),
        Chip(
            name="v6e",
            kinds=("TPU v6 lite",),
            flops=918e12,
            flops_32=918e12,
            reached=0.95,
            memory=34.4 * GB,
            memory_rate=1.6e12,
            link_rate=90 * GB,
            axes=2,
            ring=16,
            clock=1.75e9,
            tpu_name="v6e",
            source=f"{BOOK}; FLOP/s: {DOCS}/v6e; memory: {INFO}",
        ),
        Chip(
            name="7x",
            kinds=("TPU7x",),
            flops=2307e12,
            flops_32=2307e12,
            reached=0.95,
            memory=206 * GB,
            memory_rate=7.37e12,
            link_rate=100 * GB,
            axes=3,
            ring=4,
            tpu_name="tpu7x",
            source=f"{DOCS}/tpu7x; a link: a twelfth of 1,200 GB/s; memory: {INFO}",
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Link:
    """What one collective travels over: its name, and the seconds that it takes."""

    name: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Chips of one kind: `h100:8x8` has 8 nodes of 8 GPUs, `v5p:4x4x4` is a slice."""

    name: str
    chip: Chip
    shape: tuple[int, ...]

    @property
    def num_chips(self) -> int:
        return math.prod(self.shape)

    @property
    def links(self) -> tuple[str, ...]:
        """The kinds of links, the fast ones first."""
        if self.chip.axes:
            return ("ICI",)
        return ("node", "network") if self.shape[0] > 1 else ("node",)

    def place(self, device: Any, number: int) -> tuple[int, ...]:
        """Returns where a device is: its node and number in it, or its coordinates."""
        if coordinates := getattr(device, "coords", None):
            return tuple(coordinates[: len(self.shape)])
        return tuple(int(i) for i in np.unravel_index(number, self.shape))

    def link(self, kind: str, num_bytes: float, places: Sequence[tuple]) -> Link:
        """Prices one collective.

        Args:
            kind: XLA's name of it.
            num_bytes: what a chip sends by a ring algorithm.
            places: of the chips that exchange data; of a permute, one pair of them.
        """
        each, chip = np.array(places), self.chip
        size = len(each)
        if size < 2 or not num_bytes:
            return Link(self.links[0], 0.0)
        if not chip.axes:
            return self._over_switches(kind, num_bytes, each)
        spans = [len(set(column)) for column in each.T]
        if kind == "collective-permute":
            hops = np.abs(each[0] - each[1])
            rings = [size % chip.ring == 0 for size in self.shape]
            around = np.where(rings, np.minimum(hops, self.shape - hops), hops)
            return Link("ICI", num_bytes * max(1, around.sum()) / chip.link_rate)
        ways = 0  # links of a chip that carry data at once
        for axis, span in enumerate(spans):
            if span > 1:
                closed = span == self.shape[axis] and span % chip.ring == 0
                ways += 2 if closed else 1
        if kind == "all-to-all":  # a piece goes a quarter of the way around
            num_bytes *= size / 4 * size / (size - 1)
        return Link("ICI", num_bytes / (ways * chip.link_rate))

    def _over_switches(self, kind: str, num_bytes: float, each: np.ndarray) -> Link:
        """Prices it in nodes and, at the same time, between them."""
        size, nodes = len(each), len(set(each[:, 0]))
        inside = size // nodes  # of a node, take part
        share = size / (size - 1)
        if kind == "collective-permute":
            rate = self.chip.network_rate if nodes > 1 else self.chip.link_rate
            return Link(self.links[nodes > 1], num_bytes / rate)
        if kind == "all-to-all":
            between = num_bytes * (size - inside) / (size - 1)
        else:  # each chip of a node carries its part of what the node needs
            between = num_bytes * share * (nodes - 1) / nodes / inside
        within = num_bytes * share * (inside - 1) / inside / self.chip.link_rate
        if nodes == 1:
            return Link("node", within)
        return Link("network", max(within, between / self.chip.network_rate))


def cluster(name: str) -> Cluster:
    """Reads a cluster's name; raises `PlanError` where there is no such chip."""
    kind, _, sizes = name.strip().lower().partition(":")
    if kind not in CHIPS:
        raise PlanError(
            f"There is no chip {kind!r} in the table: use one of {', '.join(CHIPS)}, "
            'as in on="h100:8", on="h100:2x8" (nodes x GPUs) or on="v5p:4x4x4".'
        )
    chip = CHIPS[kind]
    sizes = sizes or "1"
    if not re.fullmatch(r"[1-9]\d{0,4}(x[1-9]\d{0,4})*", sizes):
        raise PlanError(f'on={name!r}: sizes are numbers, as in "{kind}:4x4".')
    shape = tuple(int(size) for size in sizes.split("x"))
    if chip.axes:
        if len(shape) not in (1, chip.axes):
            raise PlanError(
                f"on={name!r}: slices of {kind} have {chip.axes} axes, as in "
                f'"{kind}:{"x".join(["4"] * chip.axes)}".'
            )
        shape += (1,) * (chip.axes - len(shape))
    elif len(shape) > 2 or shape[-1] > NODE:
        raise PlanError(
            f"on={name!r}: GPUs are written as nodes x GPUs, at most {NODE} GPUs in a "
            f'node, as in "{kind}:2x{NODE}" for {2 * NODE}.'
        )
    else:
        shape = (1,) * (2 - len(shape)) + shape
    return Cluster(name, chip, shape)


def present(kind: str) -> Chip | None:
    """Returns the chip that JAX calls so, if the table has it."""
    return next((chip for chip in CHIPS.values() if kind in chip.kinds), None)


@functools.cache
def stand_ins(on: Cluster) -> tuple[list, str]:
    """Makes devices for which programs can be compiled here.

    Returns:
        The devices, and which compiler makes programs for them, in words.

    Raises:
        PlanError: the compiler of TPUs does not know such a slice.
    """
    why = "simulated devices compiled it, the table of chips prices it"
    if on.chip.axes:
        from jax.experimental import topologies

        try:
            import libtpu  # noqa: F401
        except ImportError:
            why += '; for the TPU\'s own compiler: pip install "jax[tpu]" (Linux)'
        else:
            # Otherwise it would ask Google's metadata server, which is not there.
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
            os.environ.setdefault("TPU_ACCELERATOR_TYPE", on.chip.tpu_name)
            sizes = "x".join(map(str, on.shape))
            name = f"{on.chip.tpu_name}:{sizes}"
            try:
                found = topologies.get_topology_desc(name, "tpu").devices
            except Exception as error:  # of a class that varies by version
                raise PlanError(
                    f"The compiler of TPUs knows no slice {on.name}: {error}"
                ) from None
            if len(found) == on.num_chips:
                return found, "the TPU's own compiler made it, the schedule is its own"
            why += f"; the TPU's compiler sees {len(found)} devices in it"
    from jaxlib import xla_client

    # A client of its own: this process may have started JAX with fewer devices.
    return xla_client.make_cpu_client(num_devices=on.num_chips).local_devices(), why
