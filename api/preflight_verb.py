"""`gridlaw preflight`: whether this device computes what the numerics say, check by check."""

from api.numerics_process import ask
from api.reading_verbs import print_view
from api.schemas import PreflightView
from api.tables import preflight_lines
from api.terminal import answer_console, print_lines
from kernels.verdict import Preflight
from sweeps.errors import PreflightError
from sweeps.questions import PreflightQuestion


def preflight(*, as_json: bool) -> None:
    """Print the checks.

    Raises:
        PreflightError: If one failed.
    """
    found = ask(PreflightQuestion(), Preflight)
    if as_json:
        print_view(PreflightView.of(found))
    else:
        print_lines(answer_console(), preflight_lines(found))
    if found.failure is not None:
        raise PreflightError(found.failure)
