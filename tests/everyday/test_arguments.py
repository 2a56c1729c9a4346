"""Arguments of spiders, which all workers of a crawl should have in common."""

from __future__ import annotations

import pytest

from tests.crawl.crawls import close_reason, finish, stats
from tests.everyday.crawls import EverydayCrawls, GatedSite
from tests.everyday.scripts import SPIDERS, WITH_ARGUMENTS, check_pages

pytestmark = pytest.mark.one_server


def test_arguments_of_a_script_are_those_of_the_command_line(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """Equal ones fit, however they are written; others are refused by default."""
    spiders = SPIDERS.format(site=site.url)
    with site.holding("/first/0"):
        first = crawls.script(
            spiders + WITH_ARGUMENTS.format(arguments="depth=5, tags={'b', 'a'}")
        )
        site.wait_for_visits("/first/0")
        same = crawls.script(
            spiders + WITH_ARGUMENTS.format(arguments="depth='5', tags={'a', 'b'}")
        )
        other = crawls.script(spiders + WITH_ARGUMENTS.format(arguments="depth=6"))
        same.wait_for_output(", worker ")
        other.wait()
        assert ": the spider arguments (shown as a digest): '" in other.output
        assert ", worker " not in other.output
    for script in (first, same):
        script.wait_for_success()
    check_pages(crawls, {"first": 1})


def test_an_object_among_the_arguments_is_the_same_in_every_process(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """A script that is started again goes on, wherever its objects are in memory."""
    code = SPIDERS.format(site=site.url)
    code += WITH_ARGUMENTS.format(arguments="source=object()")
    settings = 'SETTINGS["CLOSESPIDER_PAGECOUNT"] = 1\n'
    crawls.script(settings + code).wait_for_success()
    assert crawls.summary("first").pending
    second = crawls.script("padding = [object() for _ in range(1000)]\n" + code)
    second.wait_for_success()
    assert "generation 1 (resumed" in second.output
    assert set(crawls.values("page")) >= {f"/first/{number}" for number in range(6)}


def test_other_arguments_are_refused_unless_the_crawl_id_is_given(
    crawls: EverydayCrawls, site: GatedSite
) -> None:
    """With a given one they are warned about; their values are never shown."""
    given = {"REDIS_STATE_CRAWL_ID": f"{crawls.bot}:given"}
    with site.holding("/start"):
        workers = [
            crawls.start("many", site=site.url, shared=n, settings=given)
            for n in (3, 4)
        ]
        default = crawls.start("many", site=site.url, shared=3)
        default.wait_for_output(", worker ")
        refused = crawls.start("many", site=site.url, shared=3, note="secret")
        assert refused.wait() == 1
        for worker in workers:
            worker.wait_for_output(", worker ")
    finish(default, *workers)
    last = refused.output.splitlines()[-1]
    assert ": the spider arguments (shown as a digest): '" in last
    assert "use the same in all workers, or another REDIS_STATE_CRAWL_ID" in last
    assert "secret" not in last
    warned = [
        w.output.count("; going on, since the crawl id was given") for w in workers
    ]
    assert sorted(warned) == [0, 1]
    assert close_reason(default) == "finished"
    assert stats(default)["item_scraped_count"] == 3
