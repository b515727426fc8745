"""The tables of what was measured: every planned endpoint, and what the fits were given.

`endpoints` holds losses and gaps for readers. `points` holds what a fit needs and nothing that it
does not: fitting that file gives the numbers that fitting the sweep gave.
"""

from collections.abc import Iterable
from dataclasses import asdict

from sweeps.endpoints import Row
from sweeps.recipe_fits import Observation
from sweeps.tables.table import Column, Kind, Table, tabulate

NATS = "nats per token"
FLOPS = "FLOPs"

RECIPE = Column(name="recipe", kind=Kind.TEXT, meaning="Name of the recipe.")
MODEL = Column(name="model", kind=Kind.TEXT, meaning="Name of the model shape.")
SIZE = Column(
    name="N",
    kind=Kind.INTEGER,
    unit="parameters",
    meaning="Parameters without input embedding and output head.",
)
SEED = Column(name="seed", kind=Kind.INTEGER, meaning="The init seed stream of the run.")
COMPUTE = Column(
    name="flops",
    kind=Kind.NUMBER,
    unit=FLOPS,
    meaning="D x forward and backward FLOPs per token, GEMMs and attention counted exactly.",
)
LOSS = Column(
    name="loss",
    kind=Kind.NUMBER,
    unit=NATS,
    meaning="Validation loss on the held-out text, through the recipe's own forward pass.",
)
LOSS_SE = Column(
    name="loss_se",
    kind=Kind.NUMBER,
    unit=NATS,
    meaning="Standard error of the loss over validation sequences.",
)
RUN = Column(
    name="run_id",
    kind=Kind.TEXT,
    meaning="Identity of the run: the hash of all that can change a number in it.",
)

ENDPOINT_COLUMNS = (
    MODEL,
    SIZE,
    RECIPE,
    SEED,
    Column(name="tokens", kind=Kind.INTEGER, unit="tokens", meaning="Planned training tokens, D."),
    COMPUTE,
    Column(name="outcome", kind=Kind.TEXT, meaning="What came of the run."),
    LOSS,
    LOSS_SE,
    Column(
        name="loss_bf16",
        kind=Kind.NUMBER,
        unit=NATS,
        meaning="Loss of the same weights through a BF16 forward pass.",
    ),
    Column(
        name="train_loss",
        kind=Kind.NUMBER,
        unit=NATS,
        meaning="Mean training loss over the last 5 % of tokens.",
    ),
    Column(
        name="bytes_per_token",
        kind=Kind.NUMBER,
        unit="bytes per token",
        meaning="Of the validation text; loss / (ln 2 x this) is in bits per byte.",
    ),
    Column(
        name="gap",
        kind=Kind.NUMBER,
        unit=NATS,
        meaning="Loss less that of the BF16 run which differs in the recipe alone.",
    ),
    Column(
        name="relative", kind=Kind.NUMBER, unit="%", meaning="The gap in percent of the BF16 loss."
    ),
    Column(name="reason", kind=Kind.TEXT, meaning="Why there is no loss or no gap; else empty."),
    Column(name="detail", kind=Kind.TEXT, meaning="What the run said about it."),
    RUN,
    Column(name="baseline_id", kind=Kind.TEXT, meaning="The BF16 run of the gap."),
)

POINT_COLUMNS = (
    RECIPE,
    Column(name="label", kind=Kind.TEXT, meaning="What tables call the run."),
    MODEL,
    SIZE,
    Column(name="D", kind=Kind.INTEGER, unit="tokens", meaning="Planned training tokens."),
    LOSS,
    LOSS_SE,
    COMPUTE,
    SEED,
    RUN,
    Column(
        name="cluster",
        kind=Kind.TEXT,
        meaning="What a bootstrap draws together: the run, whose horizons share a trunk.",
    ),
    Column(
        name="excluded",
        kind=Kind.TEXT,
        meaning="Why the row is not fitted (`--excluded-col`); empty if it is.",
    ),
)


def endpoint_table(rows: Iterable[Row]) -> Table:
    """Every planned endpoint with its gap."""
    return tabulate(
        "endpoints",
        "A row is one endpoint that the sweep asked for, whatever came of it.",
        ENDPOINT_COLUMNS,
        (asdict(row) for row in rows),
    )


def point_table(found: Iterable[Observation]) -> Table:
    """What the fits of a sweep were given."""
    return tabulate(
        "points",
        "A row is one planned endpoint as the fit of its recipe sees it.",
        POINT_COLUMNS,
        (
            asdict(row)
            | {
                "D": row.tokens,
                "cluster": row.run_id,
                "excluded": row.reason,
            }
            for row in found
        ),
    )
