from sweeps.wording import listed, plural


def test_lists_and_plurals():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert (plural(1, "run"), plural(2000, "run")) == ("1 run", "2,000 runs")
