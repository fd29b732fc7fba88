"""Floating-point formats, and the one place where a value is rounded to any of them in any direction.

A value on its way to a format is a float64 that is exact, or that was rounded to odd (`floats.round_to_odd`): then the
rounding here is the only one that counts (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
algorithms using rounding to odd", 2008). It needs two bits more than the format has, and float64 has at least that.

PTX ISA, "Fundamental Types", "Alternate Floating-Point Data Formats" and "cvt". A NaN comes out as the format's
canonical one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format of `bits` bits.

    `storage` is the NumPy type that a register of it is viewed as, `precision` counts the significand with its hidden
    bit, `emin` is the exponent of the smallest normal number, `largest` the greatest
    finite number, `nan` the canonical NaN's bits, and `padding` the low bits that its register leaves zero.
    """

    name: str
    storage: np.dtype
    bits: int
    precision: int
    emin: int
    largest: float
    nan: int
    infinite: bool = True
    padding: int = 0

    @cached_property
    def unsigned(self) -> np.dtype:
        return np.dtype(f"u{self.storage.itemsize}")

    def widen(self, stored: np.ndarray) -> np.ndarray:
        """Stored values as float64, exactly."""
        if self.storage.kind == "f":
            return stored.view(self.storage).astype(np.float64)
        if self.emin == F32.emin:
            shift = np.uint32(F32.bits - self.bits - self.padding)
            return (stored.astype(np.uint32) << shift).view(np.float32).astype(np.float64)
        raw = stored.view(self.unsigned)
        magnitude = (raw & self.unsigned.type((1 << self.bits - 1) - 1)).astype(np.int64)
        field, fraction = magnitude >> self.precision - 1, magnitude & (1 << self.precision - 1) - 1
        hidden = np.where(field > 0, 1 << self.precision - 1, 0)
        value = np.ldexp((hidden + fraction).astype(np.float64), np.maximum(field, 1) + self.emin - self.precision)
        beyond = magnitude > self._encoded(self.largest)
        value = np.where(beyond, np.where(self.infinite & (fraction == 0), np.inf, np.nan), value)
        return np.where(raw >> self.unsigned.type(self.bits - 1) != 0, -value, value)

    def narrow(self, value: np.ndarray, rounding: str = "rn", satfinite: bool = False) -> np.ndarray:
        """float64 values rounded to the format, as stored. `satfinite` keeps what would be infinite at the largest
        finite number.
        """
        finite = np.where(np.isfinite(value), value, 0.0)
        exponent = np.where(finite == 0, self.emin, np.maximum(np.frexp(finite)[1] - 1, self.emin))
        whole = np.abs(_WHOLE[rounding](np.ldexp(finite, self.precision - 1 - exponent)))
        raw = whole.astype(np.int64) + (exponent.astype(np.int64) - self.emin << self.precision - 1)
        top = self._encoded(self.largest)
        negative = np.signbit(value)
        raw = np.where(raw > top, self._overflow(negative, rounding, satfinite), raw)
        raw = np.where(np.isinf(value), top if satfinite else self._infinity, raw)
        raw = raw | (negative.astype(np.int64) << self.bits - 1)
        raw = np.where(np.isnan(value), self.nan, raw)
        return (raw << self.padding).astype(self.unsigned).view(self.storage)

    @property
    def _infinity(self) -> int:
        """Bits of infinity, or of what stands for it where the format has none."""
        return self._encoded(self.largest) + 1 if self.infinite else self.nan

    def _encoded(self, value: float) -> int:
        """Bits of a positive number that the format holds."""
        _mantissa, exponent = np.frexp(value)
        exponent = max(int(exponent) - 1, self.emin)
        return int(np.ldexp(value, self.precision - 1 - exponent)) + (exponent - self.emin << self.precision - 1)

    def _overflow(self, negative: np.ndarray, rounding: str, satfinite: bool) -> np.ndarray:
        """Bits, without the sign, of a finite value that is too large."""
        top = self._encoded(self.largest)
        if satfinite or rounding == "rz":
            return np.full(negative.shape, top)
        if rounding == "rm":
            return np.where(negative, self._infinity, top)
        if rounding == "rp":
            return np.where(negative, top, self._infinity)
        return np.full(negative.shape, self._infinity)


def _away(value: np.ndarray) -> np.ndarray:
    """To the nearest whole number, ties away from zero."""
    whole = np.trunc(value)
    return whole + np.copysign(np.abs(value - whole) >= 0.5, value)


_WHOLE = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": _away}

F16 = Format("f16", np.dtype(np.float16), 16, 11, -14, 65504.0, 0x7FFF)
BF16 = Format("bf16", np.dtype(np.uint16), 16, 8, -126, float((2 - 2**-7) * 2.0**127), 0x7FFF)
TF32 = Format("tf32", np.dtype(np.uint32), 19, 11, -126, float((2 - 2**-10) * 2.0**127), 0x3FFFF, padding=13)
F32 = Format("f32", np.dtype(np.float32), 32, 24, -126, float(np.finfo(np.float32).max), 0x7FFFFFFF)
F64 = Format("f64", np.dtype(np.float64), 64, 53, -1022, float(np.finfo(np.float64).max), (1 << 63) - 1)
E4M3 = Format("e4m3", np.dtype(np.uint8), 8, 4, -6, 448.0, 0x7F, infinite=False)
E5M2 = Format("e5m2", np.dtype(np.uint8), 8, 3, -14, 57344.0, 0x7F)

FORMATS = {f.name: f for f in (F16, BF16, TF32, F32, F64, E4M3, E5M2)}
