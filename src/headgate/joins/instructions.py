"""Instructions of the processor that numba has no name for, as functions that kernels call.

Import this module late: it needs numba. With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python, line
by line under a debugger or a coverage tool; instructions do not, so each has a Python twin for that.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numba import config, types
from numba.extending import intrinsic

__all__ = ["bits_of", "lowest_bit", "popcount"]


def _popcount(context: Any, word: Any) -> Any:
    """Bits set in a word; the processor's own instruction."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), code


def _lowest_bit(context: Any, word: Any) -> Any:
    """The position of the lowest bit set in a word that is not 0."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), code


def _bits(context: Any, number: Any) -> Any:
    """The bits of a double as a word: doubles that are not negative are in the order of their bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.uint64))

    return types.uint64(types.float64), code


def _python_popcount(word: Any) -> Any:
    return np.uint64(int(word).bit_count())


def _python_lowest_bit(word: Any) -> int:
    return (int(word) & -int(word)).bit_length() - 1


def _python_bits(number: Any) -> Any:
    return np.uint64(struct.unpack("<Q", struct.pack("<d", number))[0])


def _instruction(compiled: Any, python: Any) -> Any:
    without_compiler: Any = config  # numba sets its attributes from the environment
    return python if without_compiler.DISABLE_JIT else intrinsic(compiled)


popcount: Any = _instruction(_popcount, _python_popcount)
lowest_bit: Any = _instruction(_lowest_bit, _python_lowest_bit)
bits_of: Any = _instruction(_bits, _python_bits)
