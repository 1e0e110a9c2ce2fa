"""The arrays that blocks, kernels and choices are made of, by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Buckets", "Bytes", "Floats", "Integers", "Indices", "Singles", "Words"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
#: Rows of a block by their index.
Indices = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
#: Halves of a signature, or planes of bits.
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
#: Items by hash.
Buckets = npt.NDArray[np.uint16]
