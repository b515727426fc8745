"""The verbs `gaps` and `claims` on anyone's file of runs: no home, no service."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from api.file_claim_tables import file_claim_lines
from api.file_claim_views import FileClaimsView
from api.file_gap_tables import file_gap_lines
from api.file_gap_views import FileGapsView
from api.file_rows import chosen_rows
from api.terminal import answer_console, print_json, print_lines
from sweeps.errors import InputError
from sweeps.fits.settings import Settings
from sweeps.tables.file_claims import judge_file
from sweeps.tables.file_gaps import file_gaps
from sweeps.tables.paired_rows import PairedRows, paired_rows


def gaps(
    file: str,
    of_file: Mapping[str, str],
    asked: Settings,
    *,
    level: float,
    margin: float,
    floors: bool,
    as_json: bool,
) -> None:
    """Print the gaps of the arms of a file.

    Args:
        file: Its path.
        of_file: Options of columns and rows, as given.
        asked: How the baseline is fitted.
        level: Of intervals and tests of gaps.
        margin: Nats per token within which a gap counts as none.
        floors: Whether each arm is also tried with an E of its own.
        as_json: Whether JSON is printed.
    """
    paired = _paired(file, of_file)
    found = file_gaps(paired, asked, level=level, margin=margin, floors=floors)
    if as_json:
        print_json(FileGapsView.of(file, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), file_gap_lines(found))


def claims(
    file: str,
    of_file: Mapping[str, str],
    statements: Sequence[str],
    *,
    level: float,
    as_json: bool,
) -> None:
    """Print the verdicts on statements about the arms of a file.

    Args:
        file: Its path.
        of_file: Options of columns and rows, as given.
        statements: As in a sweep file, with arms for recipes.
        level: Of the intervals that decide.
        as_json: Whether JSON is printed.
    """
    if not statements:
        raise InputError(
            "statement: a file of runs makes no claims; say one, as in "
            '--statement "gap(A) < gap(B)"'
        )
    paired = _paired(file, of_file)
    found = judge_file(paired, statements, level=level)
    if as_json:
        print_json(FileClaimsView.of(file, paired.baseline, found).model_dump(mode="json"))
    else:
        print_lines(answer_console(), file_claim_lines(found, paired.baseline))


def _paired(file: str, of_file: Mapping[str, str]) -> PairedRows:
    path = Path(file)
    frame, columns = chosen_rows(path, of_file)
    if columns.arm is None:
        raise InputError("arm-col: a gap is between arms; --arm-col says which column names them")
    return paired_rows(frame, columns, label=path.stem, baseline=of_file.get("--baseline"))
