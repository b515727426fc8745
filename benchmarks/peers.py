"""Other libraries on the same tensor, in the same run, beside what is nearest to them here.

Peers run on a CPU, whatever device is there. Which of them there are is said in
`benchmarks/requirements.txt`; one that is not installed has a row that says so.
"""

from collections.abc import Iterator, Sequence

import torch

from benchmarks.machine import machine
from benchmarks.peers_agreement import on_grid, tailed
from benchmarks.peers_blocks import BLOCKS
from benchmarks.peers_elements import ELEMENTS
from benchmarks.peers_quantizer import Peer, installed
from benchmarks.peers_rows import AS_IT_IS, COMPILED, CPU, LEGEND, absent, measured
from benchmarks.results import Column, Result, Row, Setting, Table
from benchmarks.timing import cpu_threads
from sweeps.wording import plural

COLUMNS = (
    Column("peer", "\npeer"),
    Column("rule", "\nrule"),
    Column("how", "\ncalled"),
    Column("scales", "block\nscales"),
    Column("rht", "\nRHT"),
    Column("sr", "\nSR"),
    Column("operand", "\nnearest here"),
    Column("gelem_per_s", "peer\nGel/s", ".3g"),
    Column("ours_gelem_per_s", "ours\nGel/s", ".3g"),
    Column("times.median", "times\nfaster", ".3g"),
    Column("equal", "\nequal", ".4%"),
    Column("near", "\nnear", ".4%"),
    Column("wide.near", "near,\nwide", ".4%"),
)
SHORT_COLUMNS = (*COLUMNS[:3], *COLUMNS[6:10])

READING = (
    "Gel/s: 1e9 elements of x in a second. times faster: time of the peer over ours, of the same "
    "round. equal: share of elements that are the same number, ours rounded once to the type that "
    "the peer returns; not for SR. near: share within 1/64, which have the same code and the same "
    "scale. wide: the same where rows fall from 1 to 2**-30."
)


def run(setting: Setting) -> Result:
    """Every peer that is here, on a CPU."""
    tables: list[Table] = []
    with torch.no_grad():
        for threads in setting.threads:
            with cpu_threads(threads):
                tables += _with_scales(threads, quick=setting.quick)
                tables.append(_elements_alone(threads, quick=setting.quick))
    return Result(
        benchmark="peers",
        machine=machine(CPU),
        quick=setting.quick,
        tables=tuple(tables),
        reading=READING,
        legend=LEGEND,
    )


def _with_scales(threads: int, *, quick: bool) -> Iterator[Table]:
    """Those that compute block scales, and the one of them that comes nearest to ours."""
    shape = (256, 512) if quick else (2048, 512)
    x = tailed(*shape)
    rows = [row for peer in _here(BLOCKS) for row in measured(peer, x, threads, quick=quick)]
    yield _table("Peers that compute block scales", shape, threads, [*rows, *_not_here(BLOCKS)])
    nearest = tuple(row for how in (AS_IT_IS, COMPILED) if (row := _nearest(rows, how)))
    if nearest:
        title = f"Which of these is fastest beside ours, {plural(threads, 'thread')}"
        yield Table(title=title, columns=SHORT_COLUMNS, rows=nearest)


def _elements_alone(threads: int, *, quick: bool) -> Table:
    """Those that round elements, all scales being 1."""
    shape = (64, 512) if quick else (512, 512)
    rows: list[Row] = []
    for peer in _here(ELEMENTS):
        assert peer.operand.grid is not None
        x = on_grid(*shape, peer.operand.grid)
        rows += measured(peer, x, threads, quick=quick)
    return _table("Peers that round elements alone", shape, threads, [*rows, *_not_here(ELEMENTS)])


def _here(peers: Sequence[Peer]) -> Iterator[Peer]:
    return (peer for peer in peers if installed(peer.package))


def _not_here(peers: Sequence[Peer]) -> Iterator[Row]:
    """A row for each package that is not installed."""
    missing = {peer.package: peer for peer in peers if not installed(peer.package)}
    return (absent(peer) for peer in missing.values())


def _nearest(rows: Sequence[Row], how: str) -> Row | None:
    """By the ratio within rounds, which does not depend on what else the machine did."""
    timed = [row for row in rows if row["how"] == how and row["missing"] is None]
    return min(timed, key=lambda row: row["times"]["median"], default=None)


def _table(title: str, shape: tuple[int, int], threads: int, rows: Sequence[Row]) -> Table:
    return Table(
        title=f"{title}: x {shape[0]}x{shape[1]}, {plural(threads, 'thread')}",
        columns=COLUMNS,
        rows=tuple(rows),
        note="\n".join(_remarks(rows)),
    )


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    """What is missing and why, and where shares are below 1, each said once."""
    said = dict.fromkeys(
        (row["peer"], row["rule"], row["missing"] or row["differs"])
        for row in rows
        if row["missing"] or row["differs"]
    )
    for peer, rule, why in said:
        yield f"{peer}{f' {rule}' if rule else ''}: {why}."
