"""Laws by name, each centred on the data that it is to be fitted to."""

from collections.abc import Callable, Mapping

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import At, Law
from sweeps.laws.local_power import LocalPower

LAWS: Mapping[str, Callable[[At], Law]] = {law.name: law.about for law in (Chinchilla, LocalPower)}
