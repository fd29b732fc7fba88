"""Ladders of others, published or measured."""

import pytest

from gemmlab import gpus, published
from gemmlab.ladder import RUNGS


@pytest.mark.parametrize(
    "ladder, shares, rounded_to",
    [
        # As Boehm's table gives them.
        (published.A6000, (1.3, 8.5, 12.8, 36.5, 68.7, 78.4, 93.7), 0.1),
        # As the run of his kernels on an H200 noted them; its speeds, rounded to 0.1 TFLOP/s, allow no more digits.
        (published.H200, (1, 12, 18, 33, 51, 61, 71), 1),
    ],
    ids=["A6000", "H200"],
)
def test_shares_of_cublas_are_those_that_were_published_with_the_speeds(ladder, shares, rounded_to):
    for rung, share in zip(RUNGS, shares, strict=True):
        assert ladder.percent_of_cublas(rung.name) == pytest.approx(share, abs=0.5 * rounded_to + 1e-6)


@pytest.mark.parametrize("ladder", [published.A6000, published.H200], ids=lambda ladder: ladder.short)
def test_a_ladder_names_every_rung_a_known_card_and_where_it_is_from(ladder):
    assert list(ladder.gflops) == [rung.name for rung in RUNGS]
    assert gpus.gpu(ladder.card).name == ladder.card
    assert all(
        part in ladder.label for part in (ladder.kind, ladder.card, ladder.source, ladder.date, str(ladder.size))
    )
    assert max(ladder.gflops.values()) < ladder.cublas < gpus.gpu(ladder.card).peak_fp32 / 1e9


def test_only_what_its_author_published_is_called_published_and_a_run_of_his_kernels_is_measured():
    assert (published.A6000.kind, published.H200.kind) == ("published", "published kernels, measured")
    assert published.H200.label.startswith("published kernels, measured: H200")


def test_speeds_are_written_with_no_more_digits_than_were_noted():
    # 0.5 and 17 TFLOP/s were noted of the H200; 309 and 15,972 GFLOP/s were published of the A6000.
    assert [published.H200.tflops(name) for name in ("naive", "register_tiles_1d", "none")] == ["0.5", "17.0", "-"]
    assert [published.A6000.tflops(name) for name in ("naive", "register_tiles_2d")] == ["0.309", "16.0"]
