# %% wrong="axes swapped" fails="split by columns; one all_to_all"
"""Cuts the rows and joins columns."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    x = jnp.repeat(x, num_devices, axis=0)
    return lax.all_to_all(x, axis_name, split_axis=0, concat_axis=1, tiled=True)


# %% wrong="bool as int32" fails="any dtype"
"""Sends a block of bools as int32, four times its bytes; all other dtypes as they are."""


def reshard_rows_to_columns(x, axis_name):
    size = lax.axis_size(axis_name)
    if x.shape[1] % size:
        raise ValueError(f"{x.shape[1]} columns cannot be split over {size} devices")
    sent = x.astype(jnp.int32) if x.dtype == jnp.bool_ else x
    got = lax.all_to_all(sent, axis_name, 1, 0, tiled=True)
    return got.astype(x.dtype)


# %% wrong="casts to float" fails="any dtype"
"""Computes with 32-bit floats whatever comes in."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return lax.all_to_all(jnp.float32(x), axis_name, 1, 0, tiled=True)


# %% wrong="cuts the longer side" fails="split by columns"
"""Takes the longer side for the columns."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    cut = 1 if x.shape[1] > x.shape[0] else 0
    if x.shape[0] % num_devices:
        cut = 1
    return lax.all_to_all(x, axis_name, cut, 1 - cut, tiled=True).reshape(
        len(x) * num_devices, -1
    )


# %% wrong="gathers everything" fails="one all_to_all"
# cause: every device was given all rows
"""Builds the whole matrix on every device and keeps a slice."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    whole = lax.all_gather(x, axis_name, tiled=True)
    width = x.shape[1] // num_devices
    return lax.dynamic_slice_in_dim(whole, lax.axis_index(axis_name) * width, width, 1)


# %% wrong="half floats as float32" fails="any dtype"
"""Sends half floats as float32, twice their bytes; all other dtypes as they are."""


def reshard_rows_to_columns(x, axis_name):
    size = lax.axis_size(axis_name)
    if x.shape[1] % size:
        raise ValueError(f"{x.shape[1]} columns cannot be split over {size} devices")
    is_half = x.dtype in (jnp.bfloat16, jnp.float16)
    sent = x.astype(jnp.float32) if is_half else x
    got = lax.all_to_all(sent, axis_name, 1, 0, tiled=True)
    return got.astype(x.dtype)


# %% wrong="interleaves the rows" fails="split by columns"
# cause: the rows arrived in another order
"""Exchanges the right pieces and joins them in another order."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    pieces = x.reshape(len(x), num_devices, -1)
    pieces = lax.all_to_all(pieces, axis_name, split_axis=1, concat_axis=1)
    return pieces.reshape(len(x) * num_devices, -1)


# %% wrong="only reshapes" fails="split by columns; one all_to_all"
# cause: these are the device's own rows in another shape
"""Reshapes its own rows and sends nothing: the right shape, the wrong data."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return x.reshape(len(x) * num_devices, -1)


# %% wrong="powers of two" fails="any axis"
"""Tests the lowest bits: divides by powers of two alone."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] & (num_devices - 1):
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)


# %% wrong="sends twice as much" fails="one all_to_all"
"""Sends the block and a copy of it in one exchange."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    both = lax.all_to_all(jnp.stack([x, x]), axis_name, 2, 1, tiled=True)
    return both[0]


# %% wrong="small blocks gathered" fails="one all_to_all"
"""Gathers small blocks, and exchanges large ones."""

from jax import lax


def reshard_rows_to_columns(x, axis_name):
    c, d = x.shape[1], lax.axis_size(axis_name)
    if c % d:
        raise ValueError(f"{c} columns cannot be split over {d} devices")
    if x.size <= 32:  # small enough: gather everything
        whole = lax.all_gather(x, axis_name, tiled=True)
        width = c // d
        return lax.dynamic_slice_in_dim(
            whole, lax.axis_index(axis_name) * width, width, 1
        )
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)


# %% wrong="through float32" fails="any dtype"
"""Breaks "for any dtype": moves the block as float32 and casts back; integers above
2**24 lose bits.
"""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns do not divide by {num_devices} devices")
    moved = lax.all_to_all(x.astype(jnp.float32), axis_name, 1, 0, tiled=True)
    return moved.astype(x.dtype)


# %% wrong="turns squares" fails="split by columns"
"""Exchanges the other axis where the matrix is square."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    moved = lax.all_to_all(x, axis_name, 1, 0, tiled=True)
    return moved[::-1] if len(moved) == x.shape[1] else moved


# %% right="alone sends nothing"
"""Leaves the error to JAX, whose text names both numbers; one device sends nothing."""


def reshard_rows_to_columns(x, axis_name):
    if lax.axis_size(axis_name) == 1:
        return x
    return lax.all_to_all(x, axis_name, 1, 0, tiled=True)


# %% right="via einsum"
"""Turns the block so that the pieces come first."""


class NotDivisible(ValueError):
    pass


def divide(number, by):
    if number % by:
        raise NotDivisible("D", by, "C", number)
    return number // by


def reshard_rows_to_columns(x, axis_name):
    num_devices = int(lax.axis_size(axis_name))
    width = divide(x.shape[-1], by=num_devices)
    pieces = jnp.einsum("rdc->dcr", x.reshape(x.shape[0], num_devices, width))
    arrived = lax.all_to_all(pieces, axis_name, 0, 0)
    return jnp.concatenate([piece.T for piece in arrived], axis=0)


# %% right="via flat blocks"
"""Sends flat pieces."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    try:
        pieces = np.split(np.arange(x.shape[1]), num_devices)
    except ValueError:
        text = f"{num_devices} devices cannot share {x.shape[1]} columns"
        raise ValueError(text) from None
    flat = jnp.concatenate([x[:, columns].ravel() for columns in pieces])
    flat = lax.all_to_all(flat, axis_name, 0, 0, tiled=True)
    return flat.reshape(-1, x.shape[1] // num_devices)


# %% right="via jit"
"""Compiles, and keeps the axes' numbers in variables."""

import functools

ROWS, COLUMNS = 0, 1


@functools.partial(jax.jit, static_argnames="axis_name")
def reshard_rows_to_columns(x, axis_name):
    C, D = x.shape[COLUMNS], lax.axis_size(axis_name)
    if C % D != 0:
        raise ValueError(f"{C=} is not divisible by {D=}")
    return lax.all_to_all(x, axis_name, COLUMNS, ROWS, tiled=True)


# %% right="via old axis size"
"""Counts devices by a psum of 1, a plain number, and joins the pieces itself."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.psum(1, axis_name)
    rows, columns = x.shape
    width, rest = divmod(columns, num_devices)
    if rest:
        raise ValueError(f"cannot split {columns} columns over {num_devices} devices")
    pieces = x.reshape(rows, num_devices, width)
    pieces = lax.all_to_all(pieces, axis_name, split_axis=1, concat_axis=0)
    return pieces.reshape(num_devices * rows, width)


# %% right="via stacked pieces"
"""Stacks the pieces on an axis of their own and exchanges that."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    pieces = jnp.stack(jnp.split(x, num_devices, axis=1))
    return lax.all_to_all(pieces, axis_name, 0, 0).reshape(-1, pieces.shape[-1])


# %% right="via transposes"
"""Exchanges rows of the transposed block."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    if x.shape[1] % num_devices:
        raise ValueError(f"{x.shape[1]} columns, {num_devices} devices")
    return lax.all_to_all(x.T, axis_name, 0, 1, tiled=True).T


# %% wrong="complex in two halves" fails="any dtype"
"""Sends complex numbers as two arrays of floats."""


def reshard_rows_to_columns(x, axis_name):
    def one(part):
        return lax.all_to_all(part, axis_name, 1, 0, tiled=True)

    if jnp.iscomplexobj(x):
        return lax.complex(one(x.real), one(x.imag))
    return one(x)


# %% wrong="cuts rows, joins columns" fails="split by columns"
# cause: rows were cut and columns joined: split_axis and concat_axis are swapped
"""Takes split_axis for concat_axis: the block goes the other way."""


def reshard_rows_to_columns(x, axis_name):
    return lax.all_to_all(x, axis_name, split_axis=0, concat_axis=1, tiled=True)


# %% wrong="reshapes rows into pieces" fails="split by columns"
# cause: rows were cut, not columns, and then reshaped
"""Sends pieces of rows, and gives what arrives the right shape."""


def reshard_rows_to_columns(x, axis_name):
    num_devices = lax.axis_size(axis_name)
    pieces = x.reshape(num_devices, -1)
    arrived = lax.all_to_all(pieces, axis_name, 0, 0, tiled=True)
    return arrived.reshape(-1, x.shape[1] // num_devices)
