"""The house rules that no linter knows: layout, size and names of files, what imports what at run time."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import dragoman

PACKAGES = ("model", "export", "server", "loadgen")
TREES = (*PACKAGES, "tests", "benchmarks")
MAX_LINES = 400
MAX_FILES = 12
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}
TRAINING_LIBRARIES = {"torch", "onnx", "onnxscript", "safetensors", "sacrebleu"}
COMMANDS = (
    *("train", "corpus", "average", "prune", "trim", "distill", "evaluate", "export", "import"),
    *("shortlist", "measure", "serve", "reload", "api-key", "bench-http", "translate", "generate"),
    *("pull", "explain"),
)


def sources(root: Path, *trees: str) -> list[Path]:
    """All Python files of the trees, and the command line when all trees are asked for."""
    found = [path for tree in trees for path in sorted((root / tree).rglob("*.py"))]
    return [*found, root / "dragoman.py"] if trees == TREES else found


def test_no_file_is_longer_than_a_head_holds(repository: Path) -> None:
    lengths = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(repository, *TREES)
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_room_holds_more_files_than_a_look_takes_in(repository: Path) -> None:
    rooms = Counter(
        str(path.parent.relative_to(repository))
        for path in sources(repository, *TREES)
        if path.name != "__init__.py"
    )
    assert {room: files for room, files in rooms.items() if files > MAX_FILES} == {}


def long_functions(path: Path) -> dict[str, int]:
    """Lines of every function that has more than the limit, from `def` or decorator to its last line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    return {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES}


def test_no_function_is_longer_than_a_screen(repository: Path) -> None:
    found = {
        (str(path.relative_to(repository)), name)
        for path in [*sources(repository, *PACKAGES), repository / "dragoman.py"]
        for name in long_functions(path)
    }
    assert found == set()


def constructor_parameters(node: ast.ClassDef) -> int:
    """Parameters of a class's own `__init__`, `self` apart; 0 without one."""
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            given = method.args
            return len(given.posonlyargs + given.args + given.kwonlyargs) - 1
    return 0


def test_no_constructor_of_the_engine_takes_more_than_seven(repository: Path) -> None:
    found = {
        (str(path.relative_to(repository)), node.name)
        for path in sources(repository, "server/engine")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and constructor_parameters(node) > MAX_PARAMETERS
    }
    assert found == set()


def test_tests_mirror_the_packages(repository: Path) -> None:
    """`tests/server/http/test_X.py` is about the package `server.http`."""
    folders = {
        path.parent.relative_to(repository / "tests")
        for package in PACKAGES
        for path in (repository / "tests" / package).rglob("test_*.py")
    }
    assert [str(folder) for folder in folders if not (repository / folder / "__init__.py").exists()] == []


def test_names_say_what_a_file_is_for(repository: Path) -> None:
    vague = [
        path
        for path in sources(repository, *TREES)
        if VAGUE_NAMES & set(re.split(r"[_.]", path.name.lower()))
    ]
    assert vague == []


def test_no_class_is_a_manager_or_a_handler(repository: Path) -> None:
    pattern = re.compile(r"^class \w*(Manager|Handler|Helper|Utils?)\b", re.MULTILINE)
    found = [
        path for path in sources(repository, *PACKAGES) if pattern.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_packages_are_listed_in_pyproject(repository: Path) -> None:
    """Setuptools finds nothing by itself here: a package not listed would be missing from the image."""
    listed = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    present = {
        ".".join(path.parent.relative_to(repository).parts)
        for tree in PACKAGES
        for path in (repository / tree).rglob("*.py")
    }
    assert present == set(listed["packages"])


def test_data_files_are_listed_in_pyproject(repository: Path) -> None:
    """The same holds for files that are no Python."""
    listed = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    present = {
        (".".join(path.parent.relative_to(repository).parts), path.name)
        for tree in PACKAGES
        for path in (repository / tree).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert present == {(package, name) for package, names in listed["package-data"].items() for name in names}


def test_packages_say_what_they_are(repository: Path) -> None:
    """An `__init__.py` imports nothing but `os`, so that importing a leaf never loads its neighbours."""
    for path in sources(repository, *PACKAGES):
        if path.name == "__init__.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            said = ast.get_docstring(tree) or ""
            assert re.fullmatch(r"[A-Z][^\n]*\.", said), f"{path}: one sentence on one line"
            assert not re.search(r"\. [A-Z]", said), f"{path}: one sentence"
            imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
            assert [ast.unparse(node) for node in imports] in ([], ["import os"]), path


@pytest.mark.parametrize("module", ["server.runtime.model_runtime", "export.graph.runner"])
def test_onnx_runtime_does_not_report_to_its_maker(repository: Path, tmp_path: Path, module: str) -> None:
    """When it does, it keeps its identifier and what it could not send in the user's cache directory."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-c", f"import {module}"]
    subprocess.run(command, cwd=repository, env=environment, check=True, timeout=60)
    assert list(tmp_path.rglob("*")) == []


def test_tests_are_no_packages(repository: Path) -> None:
    """With `tests/server/__init__.py`, `import server` inside a test would mean the tests."""
    assert list((repository / "tests").rglob("__init__.py")) == []


def loaded_by(statement: str, repository: Path) -> set[str]:
    """Names of the top-level modules that a fresh interpreter has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import server.app", "import server.cli.serve"])
def test_server_loads_no_training_library(repository: Path, statement: str) -> None:
    assert (
        loaded_by(statement, repository) & {"torch", "onnx", "onnxscript", "safetensors", "sacrebleu"}
        == set()
    )


def test_command_line_loads_nothing_heavy(repository: Path) -> None:
    heavy = {"torch", "onnx", "onnxruntime", "numpy", "fastapi", "sentencepiece"}
    assert loaded_by("import dragoman", repository) & heavy == set()


@pytest.mark.parametrize("leaf", ["export.bundle", "model.tokenizer", "server.errors", "server.settings"])
def test_leaves_are_light(repository: Path, leaf: str) -> None:
    assert (
        loaded_by(f"import {leaf}", repository) & {"torch", "onnx", "onnxruntime", "numpy", "fastapi"}
        == set()
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(repository: Path, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", command, "--help"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert f"dragoman {command}" in done.stdout.partition("Examples:")[2]


def test_command_list_is_complete(repository: Path) -> None:
    commands = dragoman.app.registered_commands
    names = {
        command.name or command.callback.__name__.replace("_", "-")
        for command in commands
        if command.callback
    }
    assert names == set(COMMANDS)
