"""The page about performance says what was measured."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from benchmarks.goals import Results, goals, read_all
from benchmarks.page import PAGE, filled
from tests.processes import REPOSITORY


@pytest.fixture(scope="module")
def measured() -> Results:
    return read_all()


def test_the_page_is_as_the_results_have_it(measured):
    """``python -m benchmarks.page`` would change nothing."""
    text = PAGE.read_text()
    assert text == filled(text, measured), "run python -m benchmarks.page"


def test_a_figure_that_was_changed_by_hand_is_noticed(measured):
    """The tables are the results, and nothing else is."""
    text = PAGE.read_text()
    figure = goals(measured)[0].found
    assert filled(text.replace(figure, "0.99"), measured) == text


def test_a_missed_goal_is_said_to_be_missed(measured):
    """With what stands in its way."""
    text = PAGE.read_text()
    for goal in goals(measured):
        says_no = re.search(re.escape(goal.figure) + r"[^\n]*\*\*no\*\*", text)
        assert bool(says_no) is not goal.is_met, goal
        assert goal.is_met or goal.limit in text


def test_results_tell_no_places(measured):
    """They name the machine's kind, and neither paths nor hosts."""
    for name, figures in measured.items():
        assert not re.search(r"/(home|root|tmp|usr)/", str(figures)), name


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra bench")
def test_plots_are_drawn_from_the_results(tmp_path):
    """All that the page shows, as text that can be searched and read aloud."""
    command = [sys.executable, "-m", "benchmarks.plots", "--out", tmp_path]
    subprocess.run(command, check=True, cwd=REPOSITORY)
    shown = set(re.findall(r"\.\. image:: (\S+\.svg)", PAGE.read_text()))
    assert {file.name for file in tmp_path.iterdir()} == shown
    for file in tmp_path.iterdir():
        assert re.search(r"<text [^>]*>[^<]+</text>", file.read_text()), file.name
