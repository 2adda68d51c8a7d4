"""Quantities of Kubernetes ("1500m", "2Ti", "8") as integers."""

import functools
import math
import re
from fractions import Fraction

_UNITS = {"": 1, "m": Fraction(1, 1000)}
_UNITS |= {unit: 1000 ** power for power, unit in enumerate("kMGTPE", 1)}
_UNITS |= {f"{unit}i": 1024 ** power for power, unit in enumerate("KMGTPE", 1)}


def amounts(quantities):
    """{resource: amount}, cpu in thousandths of a core, everything else in whole units; rounded up, without zeros."""
    found = {name: math.ceil(_number(text) * (1000 if name == "cpu" else 1)) for name, text in quantities.items()}
    return {name: amount for name, amount in found.items() if amount}


@functools.cache
def _number(text):
    digits, unit = re.fullmatch(r"([\d.]+)([A-Za-z]*)", str(text)).groups()
    return Fraction(digits) * _UNITS[unit]
