# SPDX-License-Identifier: Apache-2.0
"""The report of `ipnuma paper --html` in headless Chromium: complete, readable, and alone.

Hosts with a kernel are left out, so that their rows say what they need: that they run is tested
elsewhere, and what they give changes nothing of the page.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import browser
import programs

# What must fit: a telephone, a tablet, a screen.
WIDTHS = (360, 768, 1280)

# All experiments run for the page: much longer than a program may take to answer.
pytestmark = pytest.mark.timeout(1200)


def write(path: Path) -> str:
    """Run the experiments without the hosts that need a kernel; return the page."""
    environment = os.environ | {"IPNUMA_UML_KERNEL": "/nonexistent"}
    command = [str(programs.executable()), "paper", "--loops", "20", "--html", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return path.read_text()


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write(path)
    return path


@pytest.fixture(scope="module")
def page(html: Path) -> Iterator[browser.Page]:
    """The page in a browser."""
    with browser.chromium() as opened:
        opened.open(html.as_uri())
        yield opened


def experiments() -> list[str]:
    """Every table and figure has a folder."""
    return sorted(p.parent.name for p in (programs.ROOT / "experiments").glob("*/experiment.toml"))


def test_nothing_from_elsewhere(page: browser.Page, html: Path) -> None:
    """The page asks for itself alone, and nothing complains."""
    asked = [address for address in page.requests() if not address.startswith("data:")]
    assert asked == [html.as_uri()]
    assert page.complaints() == []
    text = html.read_text()
    assert "<script" not in text
    assert re.findall(r'(?:src|href|xlink:href)="(?!#|data:)[^"]*"', text) == []
    assert "@import" not in text and "url(" not in text


def test_every_table_and_figure(page: browser.Page) -> None:
    """Each experiment has its table with a caption, names of rows and columns, and all its rows."""
    found = page.value(
        """[...document.querySelectorAll('article[id]:not(.waterfall)')].map(article => ({
            id: article.id,
            captions: article.querySelectorAll('table > caption').length,
            columns: article.querySelectorAll('thead th[scope=col]').length,
            rows: article.querySelectorAll('tbody tr').length,
            named: article.querySelectorAll('tbody tr > th[scope=row]').length,
        }))"""
    )
    assert sorted(article["id"] for article in found) == experiments()
    for article in found:
        assert article["captions"] == 1 and article["columns"] in (6, 7), article
        assert article["rows"] == article["named"] > 0, article


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_seen(page: browser.Page, width: int, dark: bool, tmp_path: Path) -> None:
    """Drawings have a size, words and colours of the page; nothing is wider than the window."""
    page.look(width, dark)
    drawings = page.value(
        """[...document.querySelectorAll('svg')].map(svg => {
            const box = svg.getBoundingClientRect();
            return [box.width, box.height, svg.querySelectorAll('*').length];
        })"""
    )
    assert len(drawings) > 20
    for wide, high, parts in drawings:
        assert wide > 50 and high > 5 and parts > 0
    assert page.value("document.documentElement.scrollWidth") <= width
    # Words are on the ground that belongs to the reader's colours.
    ground = page.value("getComputedStyle(document.body).backgroundColor")
    ink = page.value("getComputedStyle(document.body).color")
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in (ground, ink)]
    assert abs(light[0] - light[1]) > 150
    assert (light[0] < light[1]) == dark
    words = page.value(
        """[...document.querySelectorAll('svg.plot text')].slice(0, 200).map(text =>
            getComputedStyle(text).fill)"""
    )
    assert words and "rgb(0, 0, 0)" not in words
    page.picture(tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 10_000


def test_plots_are_described(page: browser.Page) -> None:
    """Who does not see a plot is told what it shows."""
    plots = page.value(
        """[...document.querySelectorAll('svg.plot')].map(svg => [
            svg.getAttribute('role'),
            svg.querySelector('title').textContent,
            svg.querySelector('desc').textContent,
            svg.getAttribute('aria-labelledby').split(' ').every(id => document.getElementById(id)),
        ])"""
    )
    assert len(plots) > 10
    for role, title, description, labelled in plots:
        assert role == "img" and len(title) > 10 and len(description) > 30 and labelled


def test_the_waterfall_is_whole(page: browser.Page) -> None:
    """Stages touch each other, add up, and have cycles where the RTL was at work."""
    stages = page.value(
        """[...document.querySelectorAll('.waterfall')].map(waterfall => ({
            ns: [...waterfall.querySelectorAll('tbody tr')].map(row =>
                [row.children[1].textContent, +row.children[2].textContent,
                 row.children[3].textContent]),
            total: +waterfall.querySelector('tfoot td.n').textContent,
            colours: new Set([...waterfall.querySelectorAll('td.bar rect:last-child')].map(bar =>
                getComputedStyle(bar).fill)).size,
        }))"""
    )
    assert len(stages) == 2
    for waterfall in stages:
        assert abs(sum(ns for _, ns, _ in waterfall["ns"]) - waterfall["total"]) < 1
        assert {kind for kind, _, _ in waterfall["ns"]} == {"RTL", "constant"}
        assert waterfall["colours"] == 2
        assert any(kind == "RTL" and cycles for kind, _, cycles in waterfall["ns"])
        assert not any(kind == "constant" and cycles for kind, _, cycles in waterfall["ns"])


def test_links_lead_somewhere(page: browser.Page) -> None:
    """Every link has its place on the page, and no two places have one name."""
    lost = page.value(
        """[...document.querySelectorAll('a[href^="#"]')].map(link => link.hash.slice(1))
            .filter(id => !document.getElementById(id))"""
    )
    assert lost == []
    twice = page.value(
        """(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
            return ids.filter((id, at) => ids.indexOf(id) !== at); })()"""
    )
    assert twice == []


def test_differences_are_explained(page: browser.Page) -> None:
    """A difference over 15 % has a note; what was not run says what it needs."""
    far = page.value(
        """[...document.querySelectorAll('td.far')].map(cell => [cell.textContent,
            [...cell.querySelectorAll('a')].map(link =>
                document.getElementById(link.hash.slice(1)).textContent.length)])"""
    )
    assert far
    for text, notes in far:
        assert notes and min(notes) > 30, text
    unrun = page.value(
        """[...document.querySelectorAll('.absent')].map(cell => {
            // Beside the number, or once for the whole table.
            const beside = cell.closest('table.matrix') ? cell.closest('td') : cell.closest('tr');
            const places = [beside.querySelector('.how'),
                cell.closest('article').querySelector('.need')];
            return places.map(place => place ? place.textContent : '').join(' ');
        })"""
    )
    assert unrun and all("ot run: " in reason for reason in unrun)


def test_two_runs_are_one_page(html: Path, tmp_path: Path) -> None:
    """The page has no date and no chance in it."""
    assert write(tmp_path / "again.html") == html.read_text()
