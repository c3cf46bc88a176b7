"""The array types of the kernels."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Amounts: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.intp]
Bits: TypeAlias = NDArray[np.uint64]
