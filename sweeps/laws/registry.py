"""Laws by name, each centred on the data that it is to be fitted to."""

from collections.abc import Callable, Mapping

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.frontier import Frontier
from sweeps.laws.gamma import Gamma
from sweeps.laws.ladder import Ladder
from sweeps.laws.law import At, Law
from sweeps.laws.local_power import LocalPower
from sweeps.laws.overtraining import Overtraining
from sweeps.laws.tied import Tied

LAWS: Mapping[str, Callable[[At], Law]] = {
    law.name: law.about
    for law in (Chinchilla, Gamma, Tied, Overtraining, Frontier, LocalPower, Ladder)
}
