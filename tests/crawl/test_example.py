"""The example project keeps the promises that it demonstrates."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import XmlResponse

from tests.crawl.example import (
    PRODUCTS,
    RESUMED,
    Example,
    assert_all_is_accounted_for,
    figure,
    outcome,
    pids,
    wait_until_gone,
)
from tests.servers import Server


def test_a_crawl_that_loses_a_worker_loses_no_product(example: Example) -> None:
    """Killing, stopping and adding workers leaves every product delivered, in order."""
    # So many that most of what is urgent is done before a worker dies with the rest.
    run = example.run("--products", "120")
    assert_all_is_accounted_for(run, products=120)
    for end in (r" killed +SIGKILL$", r" stopped +shutdown$", r" late +finished$"):
        assert re.search(end, run.output, re.MULTILINE), str(run)
    places = [
        figure(run, kind) for kind in ("flash sales", "recently changed", "all others")
    ]
    assert 0 < places[0] < places[1] < places[2], str(run)
    wait_until_gone(run.output)
    example.home.wait_until_left()


@pytest.mark.long
def test_the_rules_of_a_crawl_spider_find_every_product(example: Example) -> None:
    """``--spider shop_links`` plays the same story."""
    run = example.small("--spider", "shop_links")
    assert_all_is_accounted_for(run)
    assert "(scrapy crawl shop_links)" in run.output


@pytest.mark.long
@pytest.mark.parametrize("workers_too", [False, True], ids=["runner", "with workers"])
def test_the_next_run_goes_on_after_a_kill(example: Example, workers_too: bool) -> None:
    """SIGKILL of the runner, alone or with its workers, half-way: nothing is lost."""
    first = example.small()
    example.wait_until_half_way(first)
    first.kill()
    if workers_too:
        for pid in pids(first.output, of=" workers "):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_until_gone(first.output)
    left = example.items()
    assert left < PRODUCTS
    second = example.run()
    assert_all_is_accounted_for(second)
    assert RESUMED in second.output
    assert f"left behind: {left} items" in second.output, str(second)
    killed = re.search(r"killed with (\d+) pages", first.output)
    assert killed
    # And what the others had.
    assert figure(second, "held") > int(killed[1]), str(second)
    rows = re.findall(r" run interrupted +(\S+)$", second.output, re.MULTILINE)
    assert rows, str(second)
    assert set(rows) == {"killed"}, str(second)


@pytest.mark.long
@pytest.mark.one_server
def test_any_server_will_do(example: Example, server: Server) -> None:
    """``--url``: stopped with Ctrl-C, resumed, and no key is left behind."""
    first = example.small("--url", server.url)
    example.wait_until_half_way(first)
    first.interrupt()
    assert first.wait() == 128 + signal.SIGINT
    wait_until_gone(first.output)

    other = example.run()
    assert other.wait() == 1
    assert f"had --url {server.url}: run it again with the same" in other.output

    second = example.run("--url", server.url)
    assert_all_is_accounted_for(second)
    assert RESUMED in second.output
    assert not example.home.place.directory.exists()
    assert list(server.client().scan_iter("*shop-example*")) == []


def test_what_a_run_says_it_is(example: Example) -> None:
    """Runs are new, resumed, or new on demand; only one at a time has a directory."""
    first = example.small()
    first.wait_for_output("3 workers")
    assert "A new crawl\n" in first.output
    second = example.run()
    assert second.wait() == 1
    assert "another run uses" in second.output
    first.kill()

    bigger = example.run("--products", "70")
    assert bigger.wait() == 1
    assert "had --products 60: run it again with the same" in bigger.output

    third = example.run("--fresh", "--products", "70")
    third.wait_for_output("70 products")
    assert "A new crawl: --fresh\n" in third.output
    third.interrupt()
    assert third.wait() == 128 + signal.SIGINT


@pytest.mark.parametrize("url", ["nonsense", "embedded:", "redis://127.0.0.1:1"])
def test_a_url_that_cannot_be_used(example: Example, url: str) -> None:
    """It is refused in one line, and does not stick to the next run."""
    run = example.small("--url", url)
    assert run.wait() == 1
    assert run.output.splitlines()[-1].startswith("failed: "), str(run)
    assert "Traceback" not in run.output
    assert not (example.directory / "example" / "run.json").exists()


def test_the_run_after_a_finished_one_starts_a_new_crawl(
    example: Example, modules: Any
) -> None:
    """It says so, and nothing of the last one is counted."""
    records = modules("record")
    directory = example.directory / "example"
    directory.mkdir(parents=True)
    (directory / "worker-1.jsonl").write_text('{"id": 1, "delivered_at": 1}\n')
    finished = records.Record("shop", PRODUCTS, "", is_finished=True)
    finished.save(directory)
    run = example.small()
    run.wait_for_output("3 workers")
    assert "A new crawl, as the last one has finished\n" in run.output
    assert records.load(directory).crawl != finished.crawl
    assert example.items() == 0
    run.interrupt()
    assert run.wait() == 128 + signal.SIGINT
    wait_until_gone(run.output)
    example.home.wait_until_left()


def test_the_sitemap_tells_what_comes_first(modules: Any) -> None:
    """What changed lately is asked for with priority 50, and before the home page."""
    assert modules("site")  # the example is on the path
    spiders, site = importlib.import_module("shop.spiders.shop"), "http://shop/"
    catalog = importlib.import_module("storefront.catalog").Catalog(PRODUCTS)
    sitemap = importlib.import_module("storefront.pages").sitemap(catalog, site)
    response = XmlResponse(f"{site}sitemap.xml", body=sitemap.encode())
    *first, last = spiders.ShopSpider(site).parse_sitemap(response)
    recent = [*catalog.flash_sales(), *catalog.recently_changed()]
    assert sorted(request.url for request in first) == sorted(
        site.rstrip("/") + catalog.url(product)
        for product in recent
        if catalog.is_in_sitemap(product)
    )
    assert {request.priority for request in first} == {50}
    assert (last.url, last.priority) == (site, 0)


def test_on_a_terminal_one_line_is_rewritten(
    modules: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures replace each other, an event goes above them, and no line wraps."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    progress = modules("progress")
    leader, follower = os.openpty()
    with os.fdopen(leader, "rb", 0) as screen, os.fdopen(follower, "w") as stream:
        shown = progress.Progress(stream)
        for pages in (10, 40):
            shown.show(pages / 10, progress.Figures(pages, 5, 3, 70, 8))
        shown.say(4.2, "an event")
        shown.close()
        stream.write("the end\n")
        stream.flush()
        text = ""
        while not text.endswith("the end\r\n"):
            text += screen.read(4096).decode()
    assert text.split(progress.CLEAR_LINE) == [
        "",
        "  1.0 s  10 pages, 5 items, 3 workers, ",
        "  4.0 s  40 pages, 5 items, 3 workers, ",
        "  4.2 s  an event\r\n",
        "  4.0 s  40 pages, 5 items, 3 workers, ",
        "the end\r\n",
    ]


def test_elsewhere_a_line_is_added_now_and_then(modules: Any) -> None:
    """A log has no control characters, and a line every three seconds."""
    progress = modules("progress")
    log = io.StringIO()
    shown = progress.Progress(log)
    for tenth in range(61):
        if shown.is_due(tenth / 10):
            shown.show(tenth / 10, progress.Figures(tenth, 0, 3, 0, 0))
    shown.close()
    lines = log.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["3.0", "6.0"]
    assert lines[1].endswith(
        " 60 pages, 0 items, 3 workers, 0 pending, 0 in flight, 10.0/s"
    )
    assert "\x1b" not in log.getvalue()


def test_who_ended_the_workers_of_an_interrupted_run(
    modules: Any, tmp_path: Path
) -> None:
    """The run did, but for those that were killed, or had closed when told to stop."""
    record = modules("record")
    roles = ["-", "killed", "stopped", "stopped", "joined late"]
    workers = [record.WorkerRecord(n, role=role) for n, role in enumerate(roles, 1)]
    (tmp_path / "worker-3.log").write_text("INFO: Spider closed (shutdown)\n")
    left = record.Record("shop", PRODUCTS, "", workers=workers)
    modules("crew").Crew(left, tmp_path, contextlib.ExitStack()).take_over()
    assert [worker.role for worker in workers] == [
        "run interrupted",
        "killed",
        "stopped",
        "run interrupted",
        "run interrupted",
    ]


@pytest.mark.parametrize(
    ("log", "role", "failed"),
    [
        ("INFO: Spider closed (finished)\n", "stopped", False),
        ("INFO: Spider opened\n", "stopped", True),
        ("INFO: Spider closed (finished)\n", "-", True),
    ],
)
def test_a_worker_may_be_told_to_stop_when_it_has_just_closed(
    modules: Any, tmp_path: Path, log: str, role: str, failed: bool
) -> None:
    """SIGTERM then finds no handler of Scrapy's any more, and nothing left to do."""
    process = subprocess.Popen(["/bin/sleep", "60"], text=True)
    record = modules("record").WorkerRecord(1, role=role, pid=process.pid)
    worker = modules("workers").Worker(record, tmp_path, process)
    worker.log.write_text(log)
    process.terminate()
    process.wait()
    assert worker.has_failed() == failed
    assert worker.closed() == ("SIGTERM" if failed else "finished")


def test_repeats_within_what_was_in_flight_are_no_problem(modules: Any) -> None:
    """A page that the killed worker held may be delivered a second time."""
    result = outcome(modules, [2, 1], [1, 3, 4])
    assert result.problems() == []
    assert result.repeated() == result.fetched_again() == 1


def test_more_repeats_than_pages_in_flight_fail_the_example(modules: Any) -> None:
    """Two repeated items with one lease held at the kill are one too many."""
    result = outcome(modules, [2, 1], [1, 2, 3, 4])
    assert result.problems() == ["2 items were repeated, at most 1 may be"]


def test_a_crawl_without_a_kill_proves_nothing(modules: Any) -> None:
    """Unless it goes on after an interrupted run, which lost all its workers."""
    assert outcome(modules, [2, 1], [3, 4], held=0).problems() == [
        "the crawl was over before a worker could be killed"
    ]
    assert outcome(modules, [2, 1], [3, 4], held=0, is_resumed=True).problems() == []


def test_a_lost_product_fails_the_example(
    modules: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """A product of the site that no worker wrote is lost, even if its page was hit."""
    result = outcome(modules, [2, 1], [3])
    assert result.lost() == [4]
    assert result.problems() == ["lost products (1): [4]"]
    assert importlib.import_module("run").report(result) == 1
    text = capsys.readouterr().out
    assert re.search(r"^lost +1 ", text, re.MULTILINE)
    assert re.search(r"^all others +2$", text, re.MULTILINE)
