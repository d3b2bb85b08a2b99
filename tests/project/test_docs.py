"""What the pages promise about their commands and snippets, and what is written from the code, holds."""

import ast
import importlib
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from streamgen.cli.app import app
from tests.project.pages import PAGES, PYTHON, ROOT, SHELL, Block, blocks

LANGUAGES = (*SHELL, *PYTHON, "json", "text")
COMMAND = re.compile(r"^(\$ |streamgen |pip |make |python3? |git |ffmpeg )", re.MULTILINE)
ELSEWHERE = {
    "git",
    "cd",
    "cp",
    "source",
    "hf",
    "ffmpeg",
    "ffplay",
    "wc",
}  # programs that are not ours to check
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@by_page
def test_every_block_says_what_it_is_so_that_no_command_escapes(page: Path) -> None:
    for block in blocks(page.read_text()):
        assert block.language in LANGUAGES, f"Line {block.line}: {block.language!r} is none of {LANGUAGES}."
        if block.language == "text":
            assert not COMMAND.search(block.text), f"Line {block.line} holds commands; label it sh."
        if block.language == "json":
            whole = block.text if block.text.lstrip().startswith("{") else f"{{{block.text}}}"
            json.loads(whole)


@by_page
def test_commands_that_are_not_run_are_understood_by_the_command(page: Path) -> None:
    for block in blocks(page.read_text()):
        for line in block.commands(run=False) if block.language in SHELL else ():
            for words in _parts(line.words):
                _understood(words, f"{page.name}:{line.number}")


@by_page
def test_snippets_that_are_not_run_use_names_that_there_are(page: Path) -> None:
    for block in blocks(page.read_text()):
        if block.language in PYTHON and not block.runs:
            tree = compile(block.text, f"{page.name}:{block.line}", "exec", flags=ast.PyCF_ONLY_AST)
            _names_exist(tree, block, page)


@pytest.mark.parametrize("name", ["cli", "api"])
def test_the_references_are_those_of_the_code(name: str) -> None:
    written = runpy.run_path(str(ROOT / "docs" / "generators" / f"{name}.py"))["page"]()
    assert (ROOT / "docs" / f"{name}.md").read_text() == written, (
        f"docs/{name}.md is not what docs/generators/{name}.py writes; run `make docs`."
    )


def test_the_pictures_of_the_cache_are_what_a_real_pool_does() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "generators" / "pictures.py"))["pictures"]()
    for name, text in drawn.items():
        assert (ROOT / "docs" / "pictures" / name).read_text() == text, f"{name}: run `make docs`."


def test_the_site_builds_strictly_and_has_every_page(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "not included in the" not in done.stderr, done.stderr  # pages that no menu leads to
    assert (tmp_path / "site" / "cache" / "index.html").is_file()


def test_an_option_that_is_not_there_would_be_found() -> None:
    with pytest.raises(AssertionError, match="--nosuch"):
        _understood(["streamgen", "video", "a hero", "--nosuch", "3"], "here")
    with pytest.raises(AssertionError, match="nosuch"):
        _names_exist(ast.parse("import streamgen as sg\nsg.VideoPipeline.nosuch"), Block("py", 1, ""), ROOT)
    with pytest.raises(AssertionError, match="nosuch"):
        _names_exist(ast.parse("import streamgen as sg\nsg.Hermes(nosuch=1)"), Block("py", 1, ""), ROOT)


def _parts(line: str) -> list[list[str]]:
    """The commands of a line: what pipes, `&&` and `;` join; redirections left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, "#"
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;<>"):
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


def _understood(words: list[str], where: str) -> None:
    program, *arguments = words
    if program == "streamgen":
        command: Any = get_command(app)
        try:
            while hasattr(command, "commands"):
                command = command.commands[arguments.pop(0)]
            command.make_context("streamgen", list(arguments))
        except (KeyError, IndexError) as error:
            raise AssertionError(f"{where}: there is no such command: {' '.join(words)}") from error
        except Exception as error:
            raise AssertionError(f"{where}: {getattr(error, 'message', error)}: {' '.join(words)}") from error
    elif program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets, f"{where}: make has no {arguments[0]}."
    elif program == "pip":
        extras = [
            name for found in re.findall(r"\[(.+?)\]", " ".join(arguments)) for name in found.split(",")
        ]
        assert set(extras) <= set(PROJECT["optional-dependencies"]), f"{where}: {extras}"
    elif program == "python":
        _module_takes(arguments, where)
    else:
        assert program in ELSEWHERE, (
            f"{where}: {program!r} is not known here; run it, or add it to ELSEWHERE."
        )


def _module_takes(arguments: list[str], where: str) -> None:
    """`python -m module --option`: the module is there, and it or a module beside it has the option."""
    assert arguments[0] == "-m" or Path(ROOT / arguments[0]).is_file(), f"{where}: {arguments[0]}"
    if arguments[0] != "-m":
        return
    spec = find_spec(arguments[1])
    assert spec is not None and spec.origin is not None, f"{where}: there is no module {arguments[1]}."
    source = "".join(path.read_text() for path in Path(spec.origin).parents[1].glob("*/*.py"))
    for option in (word.partition("=")[0] for word in arguments[2:] if word.startswith("--")):
        assert f'"{option}"' in source, f"{where}: {arguments[1]} has no {option}."


def _names_exist(tree: ast.AST, block: Block, page: Path) -> None:
    """What is imported is there; so is every attribute of it, and every argument given by name."""
    known: dict[str, Any] = {}
    where = f"{page.name}:{block.line}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name] = importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = importlib.import_module(node.module or "")
                assert hasattr(module, alias.name), f"{where}: {node.module} has no {alias.name}."
                known[alias.asname or alias.name] = getattr(module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            _found(node, known, where)
        if isinstance(node, ast.Call) and (called := _found(node.func, known, where)) is not None:
            parameters = inspect.signature(called).parameters.values()
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                given = {word.arg for word in node.keywords} - {parameter.name for parameter in parameters}
                assert not given, f"{where}: {ast.unparse(node.func)} takes no {given}."


def _found(node: ast.AST, known: dict[str, Any], where: str) -> Any:
    """The object that a dotted name stands for, where its beginning was imported."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _found(node.value, known, where)) is not None:
        assert hasattr(owner, node.attr), f"{where}: {ast.unparse(node)}: there is no {node.attr}."
        return getattr(owner, node.attr)
    return None
