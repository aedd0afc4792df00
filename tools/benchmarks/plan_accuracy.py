"""Compares plans with published figures, and with the devices that are there.

Run `python tools/benchmarks/plan_accuracy.py`: each published figure is planned anew
and printed beside it with the ratio. `docs/plan-accuracy.md` says why they differ.

`--measure` plans the trainer's transformer, enlarged, for one device that is there, and
runs it: seconds and memory, predicted and measured. It needs a GPU or a TPU.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lessons"), str(ROOT / "solutions" / "references")]

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.plan import CHIPS, Cluster, plan
from coursekit.plan.chips import GB

# Of the trainer's transformer, on one device: width, layers, letters in a row, rows.
MEASURED = {
    "0.3 B": (1024, 24, 1024, 16),
    "0.9 B": (2048, 16, 1024, 8),
    "0.3 B, long rows": (1024, 24, 4096, 4),
}
NUM_LETTERS = 32768


@dataclasses.dataclass(frozen=True)
class Decoder:
    """A decoder as Llama's: grouped queries, three matrices in each perceptron."""

    layers: int
    width: int
    units: int
    heads: int
    groups: int  # of heads, with a key and a value each
    letters: int
    tied: bool = False  # whether the embedding is also the last matrix
    size: int = 128  # of a head

    def shapes(self) -> dict[str, tuple]:
        """Returns shape and sharding of each parameter, over "data" and "model"."""
        n, width, units = self.layers, self.width, self.units
        own, shared = self.heads * self.size, self.groups * self.size
        table = {"embed": ((self.letters, width), P("model", "data"))}
        if not self.tied:
            table["unembed"] = ((width, self.letters), P("data", "model"))
        into, out = P(None, "data", "model"), P(None, "model", "data")
        return table | {
            "q": ((n, width, own), into),
            "k": ((n, width, shared), into),
            "v": ((n, width, shared), into),
            "o": ((n, own, width), out),
            "gate": ((n, width, units), into),
            "up": ((n, width, units), into),
            "down": ((n, units, width), out),
        }

    def loss(self, params: Any, x: Any, mesh: Any, policy: Any) -> Any:
        """Computes the cross-entropy of the next letters: i32[B, T] -> f32[]."""
        rows, long = x.shape

        def split(array, *axes):
            spec = NamedSharding(mesh, P(*axes))
            return lax.with_sharding_constraint(array, spec)

        def normed(h):
            wide = h.astype(jnp.float32)
            scale = lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
            return (wide * scale).astype(jnp.bfloat16)

        def whole(h):  # between blocks, "model" splits the letters of a row
            return split(split(h, "data", "model", None), "data", None, None)

        def attend(q, k, v):
            with jax.named_scope("flash"):
                scores = jnp.einsum("btgns,bugs->bgntu", q, k).astype(jnp.float32)
                seen = jnp.tril(jnp.ones((long, long), bool))
                mixed = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
                return jnp.einsum("bgntu,bugs->btgns", mixed.astype(v.dtype), v)

        def block(h, layer):
            layer = jax.tree.map(lambda one: one.astype(jnp.bfloat16), layer)
            y = whole(normed(h))
            cut = rows, long, self.groups, -1, self.size
            q = (y @ layer["q"]).reshape(cut)
            k, v = ((y @ layer[one]).reshape(*cut[:3], self.size) for one in "kv")
            q, k, v = (split(one, "data", None, "model") for one in (q, k, v))
            mixed = split(jax.checkpoint(attend)(q, k, v), "data", None, "model")
            mixed = split(mixed.reshape(rows, long, -1), "data", None, "model")
            h += split(mixed @ layer["o"], "data", "model", None)
            y = whole(normed(h))
            inner = jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])
            inner = split(inner, "data", None, "model")
            return h + split(inner @ layer["down"], "data", "model", None), None

        h = split(params["embed"].astype(jnp.bfloat16)[x], "data", "model", None)
        layers = {name: params[name] for name in "qkvo"}
        layers |= {name: params[name] for name in ("gate", "up", "down")}
        h, _ = lax.scan(jax.checkpoint(block, policy=policy), h, layers)
        last = params["embed"].T if self.tied else params["unembed"]
        logits = whole(normed(h)) @ last.astype(jnp.bfloat16)
        logits = split(logits.astype(jnp.float32), "data", None, "model")
        return optax.softmax_cross_entropy_with_integer_labels(logits, x).mean()

    def planned(self, on: Any, data: int, model: int, rows: int, long: int, remat: str):
        """Plans a step of AdamW, rows over "data", all else over both axes."""
        types = (AxisType.Auto,) * 2
        mesh = AbstractMesh((data, model), ("data", "model"), axis_types=types)
        saved = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
        policy = {"full": None, "selective": saved}[remat]
        optimizer = optax.adamw(1e-4)

        def step(state, x):
            params, opt_state = state["params"], state["opt_state"]
            value, grads = jax.value_and_grad(self.loss)(params, x, mesh, policy)
            updates, opt_state = optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, updates)
            return {"params": params, "opt_state": opt_state}, value

        params = {
            name: jax.ShapeDtypeStruct(
                shape, jnp.float32, sharding=NamedSharding(mesh, spec)
            )
            for name, (shape, spec) in self.shapes().items()
        }
        opt_state = optax.tree_utils.tree_map_params(
            optimizer,
            lambda _, like: like,
            jax.eval_shape(optimizer.init, params),
            params,
            transform_non_params=lambda one: jax.ShapeDtypeStruct(
                one.shape, one.dtype, sharding=NamedSharding(mesh, P())
            ),
        )
        x = jax.ShapeDtypeStruct(
            (rows, long), jnp.int32, sharding=NamedSharding(mesh, P("data"))
        )
        state = {"params": params, "opt_state": opt_state}
        step = jax.jit(step, donate_argnums=0)
        return plan(step, state, x, on=on, fused="flash")


# torchtitan's H100 have slower memory, but more of it, and 500 W.
H100_HBM2E = dataclasses.replace(
    CHIPS["h100"], name="h100 with HBM2e", memory=96 * GB, memory_rate=2.4e12
)
LLAMA_7B = Decoder(32, 4096, 11008, 32, 32, 32000)
LLAMA_8B = Decoder(32, 4096, 14336, 32, 8, 128256)
LLAMA_70B = Decoder(80, 8192, 28672, 64, 8, 128256)
# MaxText's base model, with its scales for 16, 32, 64 and 128 billion parameters.
MAX_16B = Decoder(32, 4096, 28672, 64, 64, 32000)
MAX_32B = Decoder(32, 8192, 28672, 64, 64, 32000)
MAX_64B = Decoder(64, 8192, 28672, 64, 64, 32000)
MAX_128B = Decoder(64, 8192, 57344, 128, 128, 32000)
TITAN = "github.com/pytorch/torchtitan/tree/main/benchmarks"
MAXTEXT = "github.com/AI-Hypercomputer/maxtext/tree/main/src/maxtext/configs"
BOOK = "jax-ml.github.io/scaling-book"


def titan(nodes: int) -> Cluster:
    """Returns the machines of torchtitan's benchmarks."""
    return Cluster(f"{nodes} x 8 H100 with HBM2e", H100_HBM2E, (nodes, 8))


@dataclasses.dataclass(frozen=True)
class Run:
    """A published training run.

    Attributes:
        name, source: where it stands.
        model: what was trained.
        how: the chips, devices along "data" and "model", rows, tokens of a row, remat.
        rate: tokens a second of a chip; or 0.
        mfu: the share of the peak; or 0.
        gib: of memory, at its peak; or 0.
    """

    name: str
    source: str
    model: Decoder
    how: tuple
    rate: float = 0.0
    mfu: float = 0.0
    gib: float = 0.0

    def compare(self) -> list[tuple[str, str, float, float]]:
        """Returns what was planned and published, each with its name and unit."""
        found = self.model.planned(*self.how)
        _, data, model, rows, long, _ = self.how
        tokens = rows * long / (data * model)
        pairs = [(self.name, "MFU", found.mfu, self.mfu)]
        if self.rate:
            pairs = [(self.name, "s", found.seconds, tokens / self.rate)]
        if self.gib:
            pairs.append((self.name, "GiB", found.num_bytes_held / 2**30, self.gib))
        return pairs


RUNS = [
    Run(
        *("torchtitan: Llama 3.1 8B, 8 H100, FSDP", TITAN, LLAMA_8B),
        *((titan(1), 8, 1, 16, 8192, "selective"), 6667, 0, 77.0),
    ),
    Run(
        *("torchtitan: Llama 3.1 8B, 128 H100, FSDP", TITAN, LLAMA_8B),
        *((titan(16), 128, 1, 256, 8192, "selective"), 6514, 0, 62.0),
    ),
    Run(
        *("torchtitan: Llama 3 8B, 64 H100, FSDP 8 x TP 8", TITAN, LLAMA_8B),
        *((titan(8), 8, 8, 96, 8192, "selective"), 4378),
    ),
    Run(
        *("torchtitan: Llama 3 70B, 256 H100, FSDP 32 x TP 8", TITAN, LLAMA_70B),
        *((titan(32), 32, 8, 512, 8192, "full"), 597.3),
    ),
    Run(
        *("MaxText: Llama 2 7B, 8 H100, FSDP", MAXTEXT, LLAMA_7B),
        *(("h100:8", 8, 1, 32, 4096, "selective"), 0, 492 / 989),
    ),
    Run(
        *("MaxText: 16B, v5e-256, FSDP", f"{MAXTEXT}/tpu/v5e", MAX_16B),
        *(("v5e:16x16", 256, 1, 1536, 2048, "full"), 0, 0.611),
    ),
    Run(
        *("MaxText: 32B, v5p-128, FSDP 16 x TP 4", f"{MAXTEXT}/tpu/v5p", MAX_32B),
        *(("v5p:4x4x4", 16, 4, 384, 2048, "selective"), 0, 0.7147),
    ),
    Run(
        *("MaxText: 64B, v5p-128, FSDP 16 x TP 4", f"{MAXTEXT}/tpu/v5p", MAX_64B),
        *(("v5p:4x4x4", 16, 4, 192, 2048, "selective"), 0, 0.7031),
    ),
    Run(
        *("MaxText: 128B, v5p-256, FSDP 16 x TP 8", f"{MAXTEXT}/tpu/v5p", MAX_128B),
        *(("v5p:4x4x8", 16, 8, 128, 2048, "selective"), 0, 0.6868),
    ),
]


def flops_per_token() -> list[tuple[str, str, float, float]]:
    """Compares with the book's FLOPs a token of Llama 3 70B, short rows."""
    found = LLAMA_70B.planned("h100:8x8", 8, 8, 64, 512, "selective")
    planned = (found.flops - found.again) * 64 / (64 * 512)
    name = "book: Llama 3 70B, applied-training"
    return [(name, "FLOPs/token", planned, 4.2e11)]


def gathers() -> list[tuple[str, str, float, float]]:
    """Compares with the book's times to gather an array, chapter `sharding`."""
    pairs = []
    for name, on, sizes, shape, before, after, published in (
        *[("quiz 2", "v5e:8x4", (8, 4, 1), (2048, 8192), P("y"), P(), 560e-6)],
        *[
            (
                "question 2, X",
                "v4:4x4x4",
                (4, 4, 4),
                (1024, 4096),
                P("x", "y"),
                P(None, "y"),
                23e-6,
            )
        ],
        *[
            (
                "question 2, XY",
                "v4:4x4x4",
                (4, 4, 4),
                (1024, 4096),
                P(("x", "y")),
                P(),
                46e-6,
            )
        ],
    ):
        types = (AxisType.Auto,) * 3
        mesh = AbstractMesh(sizes, ("x", "y", "z"), axis_types=types)
        x = jax.ShapeDtypeStruct(
            shape, jnp.bfloat16, sharding=NamedSharding(mesh, before)
        )
        spec = NamedSharding(mesh, after)
        gather = functools.partial(lax.with_sharding_constraint, shardings=spec)
        found = plan(gather, x, on=on)
        seconds = sum(found.links.values())
        pairs.append((f"book: all-gather, {name}", "s", seconds, published))
    return pairs


def compare_all() -> None:
    """Plans each published figure, and prints both with their ratio."""
    print(f"JAX {jax.__version__}; planned on simulated devices")
    print(f"{'':<52}{'planned':>12}{'published':>12}{'ratio':>7}")
    compares = [flops_per_token, gathers, *(run.compare for run in RUNS)]
    for compare in compares:
        with contextlib.redirect_stdout(io.StringIO()):  # its lines of progress
            pairs = compare()
        for name, unit, planned, published in pairs:
            cells = f"{planned:>12.4g}{published:>12.4g}{planned / published:>7.2f}"
            print(f"{name:<52}{cells}  {unit}", flush=True)


def transformer_step(width: int, layers: int, row: int, rows: int) -> tuple:
    """Makes a step of the trainer's transformer, and the shapes of its arguments."""
    from full_pipeline import Config
    from pipeline_transformer import Transformer

    class Large(Transformer):
        num_layers, num_heads, num_letters = layers, width // 64, NUM_LETTERS

    Large.row = row
    task = Large(Config("", hidden=width))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def loss(params, x, y):
        logits = task.logits(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def step(state, x, y):
        value, grads = jax.value_and_grad(loss)(state["params"], x, y)
        updates, opt_state = optimizer.update(
            grads, state["opt_state"], state["params"]
        )
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt_state": opt_state}, value

    params = jax.eval_shape(task.init, jax.random.key(0))
    state = {"params": params, "opt_state": jax.eval_shape(optimizer.init, params)}
    batch = jax.ShapeDtypeStruct((rows, row), jnp.int32)
    return jax.jit(step, donate_argnums=0), (state, batch, batch)


def measure(name: str) -> dict[str, Any]:
    """Plans and runs one model on the device that is there."""
    step, shapes = transformer_step(*MEASURED[name])
    found = plan(step, *shapes)
    print(found)
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "model": name,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "seconds": found.seconds,
        "lower": found.lower,
        "upper": found.upper,
        "measured": found.measured,
        "gib": found.num_bytes_held / 2**30,
        "measured_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
        "mfu": found.mfu * found.seconds / found.measured,
    }


def measure_all(limit_s: float) -> None:
    """Measures each model in a process of its own, since a peak stays a peak."""
    rows = []
    for name in MEASURED:
        command = [sys.executable, __file__, "--measure-one", name]
        try:
            child = subprocess.run(
                command, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            print(f"{name}: no answer within {limit_s:g} s", flush=True)
            continue
        *said, last = child.stdout.splitlines() or [""]
        print("\n".join(said), flush=True)
        if child.returncode:
            print(f"{name}: failed: {child.stderr[-1500:]}", flush=True)
            continue
        rows.append(json.loads(last))
    head = ("model", "predicted", "measured", "ratio", "GiB", "measured", "ratio")
    print("".join(f"{text:>18}" for text in head))
    for row in rows:
        time, memory = row["measured"], row["measured_gib"]
        cells = (
            f"{row['seconds']:.4f} s",
            f"{time:.4f} s",
            f"{row['seconds'] / time:.2f}",
        )
        cells += (
            f"{row['gib']:.2f}",
            f"{memory:.2f}",
            f"{row['gib'] / (memory or 1):.2f}",
        )
        print("".join(f"{text:>18}" for text in (row["model"], *cells)))
    print(json.dumps(rows))


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--measure-one", choices=MEASURED, help=argparse.SUPPRESS)
    parser.add_argument("--limit-s", type=float, default=100)
    options = parser.parse_args()
    if options.measure_one:
        print(json.dumps(measure(options.measure_one)))
    elif options.measure:
        measure_all(options.limit_s)
    else:
        compare_all()


if __name__ == "__main__":
    main()
