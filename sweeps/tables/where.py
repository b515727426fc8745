"""Rows by an expression over the columns, as `gridlaw fit --where` takes it.

    N >= 5e7 and fwd_format == 'BF16'        comparisons, `and`, `or`, `not`, `in`, arithmetic
    model.str.startswith('c4')               methods of a column
    `my column` > 3                          a name that is no identifier

The evaluator is that of `pandas.DataFrame.eval`.
"""

import ast
from tokenize import TokenError

from pandas import DataFrame, Series
from pandas.errors import UndefinedVariableError

from sweeps.errors import InputError
from sweeps.wording import plural

KEY = "where"
SHOWN = 8
EVALUATION = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What evaluating somebody's expression may raise."""


def select(frame: DataFrame, expression: str) -> DataFrame:
    """The rows for which an expression holds.

    Raises:
        InputError: If it is no condition over the columns, or holds nowhere.
    """
    kept = frame[_condition(frame, expression)]
    if kept.empty:
        examples = _examples(frame, expression)
        raise InputError(
            f"{KEY} = {expression}: holds for none of {plural(len(frame), 'row')}{examples}"
        )
    return kept


def _condition(frame: DataFrame, expression: str) -> Series:
    # The evaluator would take @name for a variable of this program.
    if "@" in expression:
        raise InputError(f"{KEY} = {expression}: @ has no meaning here; name a column")
    # 6 N D of a large run leaves the 64-bit integers, which would wrap around without a word.
    whole = {name: "float64" for name in frame.columns if frame[name].dtype.kind in "iu"}
    try:
        found = frame.astype(whole).eval(expression, engine="python")
    except UndefinedVariableError as error:
        names = ", ".join(map(str, frame.columns))
        raise InputError(f"{KEY} = {expression}: {error}; the columns are {names}") from error
    except (SyntaxError, TokenError) as error:
        raise InputError(
            f"{KEY} = {expression}: is not an expression; equality is ==, and text stands in quotes"
        ) from error
    except EVALUATION as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{KEY} = {expression}: {said}") from error
    if isinstance(found, DataFrame):
        raise InputError(f"{KEY} = {expression}: sets a column; equality is ==")
    if not isinstance(found, Series) or found.dtype.kind != "b":
        raise InputError(
            f"{KEY} = {expression}: gives no yes or no for each row; a condition such as "
            f"{frame.columns[0]} == ... does"
        )
    return found


def _examples(frame: DataFrame, expression: str) -> str:
    """What the columns of text in the expression hold, since a misspelt value is the usual slip."""
    try:
        named = {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
    except SyntaxError:  # names in backticks
        return ""
    said = [
        f"; {name} is one of {', '.join(map(str, frame[name].unique()[:SHOWN]))}"
        + (", ..." if frame[name].nunique() > SHOWN else "")
        for name in frame.columns
        if name in named and frame[name].dtype.kind not in "iufb"
    ]
    return "".join(said)
