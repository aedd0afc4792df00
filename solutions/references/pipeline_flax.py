"""The language model once more, in Flax NNX: layers of a library in place of formulas.

The text, the layout and what is computed are `pipeline_transformer`'s. Each parameter
says in its metadata which logical axes it has; the pipeline sees a flat dict of arrays,
as of every task, with names such as "layers/attention/out/kernel".

Source: Flax, "Why Flax NNX", "Scale up on multiple devices" and "Transforms guide".
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from pipeline_transformer import LETTERS, Transformer


def named(*axes: str) -> dict[str, Any]:
    """Makes the metadata of a parameter; where it lies is the pipeline's business."""
    return {"out_sharding": axes, "eager_sharding": False}


def attend(query: Any, key: Any, value: Any, **_: Any) -> Any:
    """Attends to what stands before, in the arrays' dtype, with a softmax in float32."""
    return jax.nn.dot_product_attention(query, key, value, is_causal=True)


class Layer(nnx.Module):
    """Attention, then a perceptron: each reads a normed h, and is added to h."""

    def __init__(self, task: FlaxTransformer, rngs: nnx.Rngs):
        width, layers = task.config.hidden, task.num_layers
        normal, deep = nnx.initializers.normal, (2 * layers) ** -0.5
        more = {"use_bias": False, "dtype": task.config.compute_dtype, "rngs": rngs}
        self.norm_1 = nnx.RMSNorm(width, scale_metadata=named("whole"), rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            task.num_heads,
            width,
            decode=False,
            attention_fn=attend,
            keep_rngs=False,
            kernel_init=normal(width**-0.5),
            kernel_metadata=named("width", "heads", "size"),
            out_kernel_init=normal(deep * width**-0.5),
            out_kernel_metadata=named("heads", "size", "width"),
            **more,
        )
        self.norm_2 = nnx.RMSNorm(width, scale_metadata=named("whole"), rngs=rngs)
        self.up = nnx.Linear(
            width,
            4 * width,
            kernel_init=normal(width**-0.5),
            kernel_metadata=named("width", "units"),
            **more,
        )
        self.down = nnx.Linear(
            4 * width,
            width,
            kernel_init=normal(deep * (4 * width) ** -0.5),
            kernel_metadata=named("units", "width"),
            **more,
        )

    def __call__(self, h: Any) -> Any:
        """Computes f32[B, T, width] from f32[B, T, width]."""
        h += self.attention(self.norm_1(h)).astype(jnp.float32)
        return h + self.down(nnx.gelu(self.up(self.norm_2(h)))).astype(jnp.float32)


class LanguageModel(nnx.Module):
    """Letters and places are embedded; the layers' parameters are stacked."""

    def __init__(self, task: FlaxTransformer, rngs: nnx.Rngs):
        width = task.config.hidden
        more = {
            "embedding_init": nnx.initializers.normal(1.0),
            "dtype": task.config.compute_dtype,
            "rngs": rngs,
        }
        self.letters = nnx.Embed(
            len(LETTERS), width, embedding_metadata=named("letter", "width"), **more
        )
        self.places = nnx.Embed(
            task.row, width, embedding_metadata=named("place", "width"), **more
        )

        @nnx.split_rngs(splits=task.num_layers)
        @nnx.vmap(transform_metadata={nnx.PARTITION_NAME: "layer"})
        def stacked(rngs):
            return Layer(task, rngs)

        self.layers = stacked(rngs)
        self.norm = nnx.RMSNorm(width, scale_metadata=named("whole"), rngs=rngs)

    def __call__(self, x: Any) -> Any:
        """Computes f32[B, T, letters] from i32[B, T]."""
        structure, stacked = nnx.split(self.layers)

        @jax.checkpoint
        def layer(h, own):
            return nnx.merge(structure, own)(h), None

        h = self.letters(x).astype(jnp.float32)
        h += self.places(jnp.arange(x.shape[1])).astype(jnp.float32)
        h, _ = jax.lax.scan(layer, h, stacked)
        return self.letters.attend(self.norm(h)).astype(jnp.float32)


class FlaxTransformer(Transformer):
    """`Transformer` with NNX modules; its parameters have a module's paths as names."""

    @functools.cached_property
    def model(self) -> tuple[Any, Any]:
        """The module without its arrays, and these in the abstract."""
        return nnx.split(nnx.eval_shape(lambda: LanguageModel(self, nnx.Rngs(0))))

    @functools.cached_property
    def axes(self) -> dict[str, tuple]:
        """The logical axes of each parameter, as its metadata have them."""
        return {
            "/".join(path): leaf.get_metadata("out_sharding")
            for path, leaf in nnx.to_flat_state(self.model[1])
        }

    def init(self, key: Any) -> dict[str, Any]:
        """Draws the parameters, float32; raises as `Transformer.init`."""
        self.size_of_a_head()
        state = nnx.state(LanguageModel(self, nnx.Rngs(key)))
        return {"/".join(path): leaf[...] for path, leaf in nnx.to_flat_state(state)}

    def logits(self, params: dict[str, Any], x: Any) -> Any:
        """Computes f32[B, T, letters] from i32[B, T]."""
        structure, state = self.model
        state = nnx.from_flat_state(
            (path, leaf.replace(params["/".join(path)]))
            for path, leaf in nnx.to_flat_state(state)
        )
        return nnx.merge(structure, state)(x) * self.config.hidden**-0.5
