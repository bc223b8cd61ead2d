"""ARCHITECTURE.md against the tree: the keys, tests and files that its tables name exist."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S).group(1)


def rows(title):
    """The cells of a section's table, its head left out."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_queue_names_keys_that_exist():
    known = set(re.findall(r"PARLEY_\w+\(\s*limits,\s*(\w+)", (ROOT / "schemas" / "config_keys.cpp").read_text()))
    named = re.findall(r"`limits\.(\w+)`", section("Every queue"))
    assert len(known) > 20 and len(named) > 15
    assert [key for key in named if key not in known] == []


def test_every_queue_names_tests_that_exist():
    sources = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*test*.*")
               if path.suffix in (".py", ".cpp") and "node_modules" not in path.parts}
    for cells in rows("Every queue"):
        assert len(cells) == 5, cells
        files = [name.split("/")[-1] for name in re.findall(r"`([\w/]+\.(?:py|cpp))`", cells[4])]
        for name in files:
            assert name in sources, f"{cells[0]}: {name}"
        for name in re.findall(r"`(\w+)`", cells[4]):
            assert any(re.search(rf"\b{name}\b", text) for text in sources.values()), f"{cells[0]}: {name}"


def test_every_step_of_a_message_is_a_file():
    for cells in rows("A message's way"):
        for name in re.findall(r"`((?:schemas|storage|actors|net)/\w[\w/]*)`", cells[1]):
            path = ROOT / name
            assert path.is_dir() or list(path.parent.glob(path.name + ".*")), name
