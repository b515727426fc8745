"""What can be asked for, and what is said of anything else."""

import pytest

from sweeps.counts import non_embedding_parameters
from sweeps.design.wanted import (
    Constant,
    Place,
    Term,
    Wanted,
    WantedClaim,
    parse_spend,
    parse_wanted,
)
from sweeps.errors import InputError
from sweeps.families.ladder import PRESETS

SIZE = float(non_embedding_parameters(PRESETS["400m"]))


@pytest.mark.parametrize(
    ("text", "what", "recipe", "place"),
    [
        ("gap(ufp4) at N=1e9, D=20e9", Term.GAP, "ufp4", Place(N=1e9, D=20e9)),
        ("  gap( ufp4 )  at  N = 1e9 ,D =2e10 ", Term.GAP, "ufp4", Place(N=1e9, D=20e9)),
        ("gap(ufp4-bf16(*.up)) at N=1, D=2", Term.GAP, "ufp4-bf16(*.up)", Place(N=1, D=2)),
        ("loss(bf16) at N=400m, D=20tpp", Term.LOSS, "bf16", Place(N=SIZE, D=20 * SIZE)),
        ("loss(bf16) at N=1e8, D=5Btok", Term.LOSS, "bf16", Place(N=1e8, D=5e9)),
        ("alpha", Constant.ALPHA, None, None),
        ("beta at N=1e9, D=20e9", Constant.BETA, None, Place(N=1e9, D=20e9)),
        ("E", Constant.E, None, None),
        ("eff_N(ufp4)", Constant.EFF_N, "ufp4", None),
        ("C_mult(ufp4)", Constant.C_MULT, "ufp4", None),
    ],
)
def test_a_quantity_is_read_with_its_recipe_and_place(
    text: str, what: Term | Constant, recipe: str | None, place: Place | None
) -> None:
    assert parse_wanted(text) == Wanted(text=text.strip(), what=what, recipe=recipe, place=place)


def test_a_claim_is_asked_for_by_its_name() -> None:
    assert parse_wanted("claim uniform-wins") == WantedClaim(
        text="claim uniform-wins", name="uniform-wins"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gap(ufp4)", "write it as in gap(ufp4) at N=1e9, D=20e9"),
        ("gap at N=1e9, D=20e9", "needs a recipe"),
        ("gaps(ufp4) at N=1, D=1", "'gaps' cannot be planned for; did you mean gap?"),
        ("alfa", "did you mean alpha?"),
        ("", "'' cannot be planned for"),
        ("claim", "'claim' cannot be planned for"),
        ("alpha(ufp4)", "of the law of all recipes; write alpha"),
        ("gap(ufp4) at N=1e9", "write the place as N=1e9, D=20e9, not 'N=1e9'"),
        ("gap(ufp4) at N=-1, D=1e9", "N = -1 must be a positive number or the name of a model"),
        ("gap(ufp4) at N=nan, D=1e9", "N = nan must be"),
        ("gap(ufp4) at N=1e9, D=0", "D = 0: has no unit"),
        ("gap(ufp4) at N=1e9, D=1e18flops", "a place is in tok or tpp, not in flops"),
        ("gap(ufp4) at N=1e9, D=3Bt", "unknown unit 'Bt'"),
        ("loss(bf16) at N=1e30, D=1e40", "N = 1e+30: must lie from 1 to 1e+15"),
        ("loss(bf16) at N=1e-9, D=1e9", "N = 1e-09: must lie from 1 to 1e+15"),
        ("loss(bf16) at N=1e9, D=1e40", "D = 1e+40: must lie from 1 to 1e+15"),
        ("loss(bf16) at N=10, D=1e15", "D/N = 1e+14: must be at most 1e+06"),
    ],
)
def test_what_cannot_be_planned_for_is_named_with_what_can(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_wanted(text)
    assert str(refused.value).startswith(f"want = {text}")
    assert words in str(refused.value)


@pytest.mark.parametrize("text", ["1e17", "1e17flops", " 1.00e17flops "])
def test_a_budget_is_a_number_of_flops_with_or_without_its_unit(text: str) -> None:
    assert parse_spend(text) == 1e17


@pytest.mark.parametrize("text", ["", "20tpp", "1e17 pigs", "nan", "inf", "0", "-1flops", "1e999"])
def test_a_budget_that_is_no_positive_number_of_flops_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^budget = .*: must be a .*number of FLOPs"):
        parse_spend(text)
