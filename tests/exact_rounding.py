"""Rounding of exact rationals to a binary format, written from IEEE 754 alone, to hold the emulator's arithmetic to."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor


@dataclass(frozen=True)
class Binary:
    """A format of `bits` bits, `precision` of them significant (the hidden one included)."""

    bits: int
    precision: int

    @property
    def bias(self) -> int:
        return (1 << self.bits - self.precision - 1) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.bits - self.precision) - 1) << self.precision - 1

    def value(self, raw: int) -> Fraction | None:
        """The number that bits stand for; None for an infinity or a NaN."""
        sign = -1 if raw >> self.bits - 1 else 1
        magnitude = raw & (1 << self.bits - 1) - 1
        if magnitude >= self.infinity:
            return None
        field, fraction = magnitude >> self.precision - 1, magnitude & (1 << self.precision - 1) - 1
        significand = fraction + (1 << self.precision - 1 if field else 0)
        return sign * significand * Fraction(2) ** (max(field, 1) - self.bias - self.precision + 1)

    def rounded(self, value: Fraction, mode: str, negative_zero: bool = False) -> int:
        """Bits of a number rounded once: 'rn' to nearest even, 'rz' toward zero, 'rm' down, 'rp' up."""
        negative = value < 0 or (value == 0 and negative_zero)
        magnitude = abs(value)
        quantum = Fraction(2) ** (1 - self.bias - self.precision + 1)
        while magnitude >= quantum * (1 << self.precision):
            quantum *= 2
        whole = floor(magnitude / quantum)
        rest = magnitude / quantum - whole
        up = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
            "rz": False,
            "rm": negative and rest > 0,
            "rp": not negative and rest > 0,
        }[mode]
        whole += up
        if whole == 1 << self.precision:
            whole, quantum = whole // 2, quantum * 2
        exponent = (quantum / Fraction(2) ** (1 - self.bias - self.precision + 1)).numerator.bit_length() - 1
        raw = whole + (exponent << self.precision - 1)
        if raw >= self.infinity:
            grows = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
            raw = self.infinity if grows else self.infinity - 1
        return raw | (1 << self.bits - 1 if negative else 0)


BINARY = {"f16": Binary(16, 11), "bf16": Binary(16, 8), "f32": Binary(32, 24), "f64": Binary(64, 53)}
