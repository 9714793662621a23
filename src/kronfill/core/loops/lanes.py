"""Several rows of a factor against one vector at a time, in whole vector registers.

Of the obvious loops the compiler makes half as much: it uses half the registers' width, asks at
every call whether the rows overlap what is written, and forms each sum on its own. Here a cache
line of each of eight rows is worked on at once, and their eight sums are formed together.

The rows are those of a table made by :func:`lined`: they begin at a cache line and are filled up
with zeros to a whole number of them. Longer vectors than a processor has are cut by the compiler;
the order of all additions is fixed here, for any processor.
"""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
import numba.extending
import numba.types
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "LINE",
    "add_1",
    "add_4",
    "add_8",
    "dots_1",
    "dots_4",
    "dots_8",
    "lined",
    "prefetch",
    "width",
]

types: Any = numba.types
cgutils: Any = numba.core.cgutils
intrinsic: Any = numba.extending.intrinsic
LINE = 64
"""Bytes of a cache line."""
INT = ir.IntType(64)
LANE = ir.IntType(32)
Vectors = list[Any]


def width(columns: int, dtype: DTypeLike) -> int:
    """Columns of a table whose rows are filled up to whole cache lines."""
    lanes = LINE // np.dtype(dtype).itemsize
    return max(1, -(-columns // lanes)) * lanes


def lined(table: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The table with rows that begin at a cache line, zeros behind; itself where it is so already.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.core.loops.lanes import lined
    >>> rows = lined(np.ones((3, 5)), np.float64)
    >>> rows.shape, rows.ctypes.data % 64, rows[0]
    ((3, 8), 0, array([1., 1., 1., 1., 1., 0., 0., 0.]))
    >>> lined(rows, np.float64) is rows
    True
    """
    dtype = np.dtype(dtype)
    rows, columns = table.shape
    wide = width(columns, dtype)
    ready = wide == columns and table.dtype == dtype and table.flags.c_contiguous
    if ready and table.ctypes.data % LINE == 0:
        return table
    size = rows * wide * dtype.itemsize
    raw = np.empty(size + LINE, np.uint8)
    begin = -raw.ctypes.data % LINE
    out = raw[begin : begin + size].view(dtype).reshape(rows, wide)
    out[:, :columns] = table
    out[:, columns:] = 0
    return out


class _Rows:
    """Some rows of a table, by the entries k, k + 1, ... of an index: what both steps need."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any, count: int) -> None:
        vector, q, inner = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(kinds[:3], values[:3], strict=True)
        )
        k = values[3]
        self.builder = builder
        kind = kinds[1].dtype
        self.lanes = LINE * 8 // kind.bitwidth
        self.element = context.get_data_type(kind)
        self.vector = ir.VectorType(self.element, self.lanes)
        self._align = kind.bitwidth // 8
        columns = builder.extract_value(q.shape, 1)
        self._steps = builder.udiv(columns, INT(self.lanes))
        self.other = self._as_vectors(vector.data)
        self.rows = []
        for c in range(count):
            item = builder.load(builder.gep(inner.data, [builder.add(k, INT(c))]))
            item = builder.sext(item, INT) if item.type.width < INT.width else item
            self.rows.append(self._as_vectors(builder.gep(q.data, [builder.mul(item, columns)])))
        name = f"llvm.fmuladd.v{self.lanes}f{kind.bitwidth}"
        signature = ir.FunctionType(self.vector, [self.vector] * 3)
        self._fused = cgutils.get_or_insert_function(builder.module, signature, name)

    def _as_vectors(self, pointer: Any) -> Any:
        return self.builder.bitcast(pointer, self.vector.as_pointer())

    def load(self, pointer: Any, j: Any) -> Any:
        """Vector number j behind a pointer."""
        found = self.builder.load(self.builder.gep(pointer, [j]))
        found.align = self._align
        return found

    def store(self, value: Any, pointer: Any, j: Any) -> None:
        """The other way."""
        self.builder.store(value, self.builder.gep(pointer, [j])).align = self._align

    def fused(self, a: Any, b: Any, c: Any) -> Any:
        """A b + c."""
        return self.builder.call(self._fused, [a, b, c])

    def each(self, carried: int, step: Any) -> Vectors:
        """step(j, sums) for the vectors of a row; sums begin at zero, what they end with."""
        builder = self.builder
        before, body = builder.block, builder.append_basic_block()
        after = builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        j = builder.phi(INT)
        sums = [builder.phi(self.vector) for _ in range(carried)]
        found = step(j, sums)
        following = builder.add(j, INT(1))
        for phi, first, then in zip(
            [j, *sums],
            [INT(0), *[ir.Constant(self.vector, [0.0] * self.lanes)] * carried],
            [following, *found],
            strict=True,
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(then, body)
        more = builder.icmp_unsigned("<", following, self._steps)
        builder.cbranch(more, body, after)
        builder.position_at_end(after)
        return list(found)

    def shuffled(self, x: Any, y: Any, lanes: list[int]) -> Any:
        """Lanes of two vectors: those of y count on from those of x."""
        mask = ir.Constant(ir.VectorType(LANE, len(lanes)), lanes)
        return self.builder.shuffle_vector(x, y, mask)

    def halves_added(self, x: Any, y: Any, group: int) -> Any:
        """In every group of lanes: the sums of the halves of x, then those of y."""
        half, low, high = group // 2, list[int](), list[int]()
        for begin in range(0, self.lanes, group):
            for shift in (begin, self.lanes + begin):
                low += range(shift, shift + half)
                high += range(shift + half, shift + group)
        return self.builder.fadd(self.shuffled(x, y, low), self.shuffled(x, y, high))

    def sums(self, vectors: Vectors) -> Vectors:
        """The sum of each vector: two become one until one is left, in order."""
        group = self.lanes
        while len(vectors) > 1:
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self.halves_added(x, y, group) for x, y in pairs]
            group //= 2
        (found,), place = vectors, group
        while group > 1:
            found = self.halves_added(found, found, group)
            group //= 2
        count = self.lanes // place
        return [self.builder.extract_element(found, LANE(c * place)) for c in range(count)]

    def repeated(self, value: Any) -> Any:
        """A number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, value, LANE(0))
        return self.shuffled(first, nothing, [0] * self.lanes)


def _dots(count: int) -> Any:
    """t . q[inner[k]], t . q[inner[k + 1]], ...: a tuple of so many."""

    @intrinsic
    def dots(typing: Any, t: Any, q: Any, inner: Any, k: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            rows = _Rows(context, builder, signature.args, values, count)

            def step(j: Any, sums: Vectors) -> Vectors:
                part = rows.load(rows.other, j)
                return [
                    rows.fused(part, rows.load(row, j), total)
                    for row, total in zip(rows.rows, sums, strict=True)
                ]

            found = rows.sums(rows.each(count, step))
            return context.make_tuple(builder, signature.return_type, found)

        return types.UniTuple(q.dtype, count)(t, q, inner, types.int64), emit

    return dots


def _add(count: int) -> Any:
    """g += v[0] q[inner[k]] + v[1] q[inner[k + 1]] + ..."""

    @intrinsic
    def add(typing: Any, g: Any, q: Any, inner: Any, k: Any, v: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            rows = _Rows(context, builder, signature.args[:4], values[:4], count)
            given = cgutils.unpack_tuple(builder, values[4], count)
            factors = [rows.repeated(value) for value in given]

            def step(j: Any, _: Vectors) -> Vectors:
                even, odd = rows.load(rows.other, j), None
                for c, (factor, row) in enumerate(zip(factors, rows.rows, strict=True)):
                    part = rows.load(row, j)
                    if c % 2 == 0:
                        even = rows.fused(factor, part, even)
                    elif odd is None:  # a second chain: half the latency
                        odd = builder.fmul(factor, part)
                    else:
                        odd = rows.fused(factor, part, odd)
                rows.store(even if odd is None else builder.fadd(even, odd), rows.other, j)
                return []

            rows.each(0, step)
            return context.get_dummy_value()

        return types.void(g, q, inner, types.int64, types.UniTuple(q.dtype, count)), emit

    return add


dots_8, dots_4, dots_1 = _dots(8), _dots(4), _dots(1)
add_8, add_4, add_1 = _add(8), _add(4), _add(1)


@intrinsic
def prefetch(typing: Any, array: Any, k: Any) -> Any:
    """Ask for the cache line of array[k], which need not exist."""

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, LANE, LANE, LANE])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        at = builder.bitcast(builder.gep(data, [values[1]]), byte)
        builder.call(function, [at, LANE(0), LANE(3), LANE(1)])  # to read, often, data
        return context.get_dummy_value()

    return types.void(array, types.int64), emit
