"""Follow pages as they stand, in an empty folder, and keep what they print: python -m docs.run [PAGE ...].

``--check`` runs nothing and names the pages that were run by other code than today's.
"""

from __future__ import annotations

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from docs.kept import BOOK, ONLY, OUTPUTS, PAGES, ROOT, blocks, cells, digest, kept, text_of
from tune_vfl.evaluation.code import bytes_of_code

STUDIES = {"own-loop": ("split", "label-only", "fedavg")}  # of docs/studies, exported before the page is followed


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which a page's commands run: this Python, and packages into a folder beside."""
    installed = folder.parent / "installed"
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)]),
        "PIP_TARGET": str(installed),  # beside the environment, which stays as it is
        "PIP_NO_DEPS": "1",
        "PIP_QUIET": "1",
        "PIP_NO_BUILD_ISOLATION": "false",
        "COLUMNS": "100",
    }


def command(line: str, folder: Path) -> str:
    """Run a line of a page in a shell, and return what it printed.

    Raises:
        RuntimeError: where it failed, with what it said.
    """
    print("+", line, file=sys.stderr)
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{line}\n{done.stdout}{done.stderr}")
    # Of what is said beside the answer the reader of a page is told what was written, and not how it went on.
    written = [told for told in done.stderr.splitlines(keepends=True) if told.startswith("wrote ")]
    return "".join(written) + done.stdout


def lines_of(text: str) -> list[str]:
    """Return the commands of a block, without what stands behind a ``#``."""
    return [line.partition("  #")[0].strip() for line in text.splitlines()]


def displayed(source: str, names: dict[str, Any]) -> object:
    """Run lines of Python as a cell of a notebook, and return the value of the last one if it has one."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the page's own lines
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - the page's own line


def photograph(html: str, picture: Path) -> None:
    """Write what a browser shows of an interactive figure, whose script and data a page of the site does not carry."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started, tempfile.TemporaryDirectory() as place:
        (Path(place) / "figure.html").write_text(html, encoding="utf-8")
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 900, "height": 520})
        page.goto(f"file://{place}/figure.html")
        page.wait_for_selector(".main-svg")
        page.screenshot(path=picture)
        browser.close()


def cell(source: str, names: dict[str, Any], picture: Path) -> dict[str, str]:
    """Run a cell, and return what it printed and showed: as text, as HTML, or as a picture."""
    with redirect_stdout(io.StringIO()) as out:
        value = displayed(source, names)
    if hasattr(value, "to_plotly_json"):
        photograph(value.to_html(include_plotlyjs=True), picture)
        return {"text": out.getvalue(), "picture": f"outputs/{picture.name}"}
    if hasattr(value, "_repr_html_"):
        return {"text": out.getvalue(), "html": value._repr_html_()}
    return {"text": out.getvalue() + ("" if value is None else f"{value!r}\n")}


def follow(page: str, folder: Path, shell: Callable[[str, Path], str] = command) -> list[dict[str, str]]:
    """Do what a page says in a folder, and return what each of its blocks that run printed."""
    names: dict[str, Any] = {}
    said = []
    for block in blocks(text_of(page), ONLY.get(page, "")):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            said.append(cell(block.text, names, OUTPUTS / f"{page}-{len(said)}.png"))
        elif block.runs:
            said.append({"text": "".join(shell(line, folder) for line in lines_of(block.text))})
            if reports := [line.rpartition(" ")[2] for line in lines_of(block.text) if "tune-vfl report" in line]:
                picture = OUTPUTS / f"{page}-{len(said)}.png"
                shutil.copyfile(min((folder / reports[-1] / "figures").glob("frontier*.png")), picture)
                said[-1]["picture"] = f"outputs/{picture.name}"
    return said


def run(page: str) -> None:
    """Follow a page and keep what it printed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        folder.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        for study in STUDIES.get(page, ()):
            command(f"tune-vfl search {ROOT}/docs/studies/{study}.yaml", folder)
            command(f"tune-vfl export {study} --select max-utility -o {study}.json", folder)
        if page == BOOK:
            os.chdir(folder)
            names: dict[str, Any] = {"__name__": "__main__"}
            code = [c["source"] for c in cells() if c["cell_type"] == "code"]
            said = [cell(source, names, OUTPUTS / f"{page}-{i}.png") for i, source in enumerate(code)]
        else:
            said = follow(page, folder)
    told = json.dumps({"digest": digest(page), "code": bytes_of_code(), "said": said}, indent=1, ensure_ascii=False)
    (OUTPUTS / f"{page}.json").write_text(told.replace(str(folder), ".").replace(place, "..") + "\n", encoding="utf-8")


def main() -> int:
    """Run the pages that are named, or all of them; with --check, say which were run by other code."""
    OUTPUTS.mkdir(exist_ok=True)
    if sys.argv[1:] == ["--check"]:
        old = [page for page in PAGES if kept(page)["code"] != bytes_of_code()]
        print(f"run by other code: {' '.join(old)}" if old else "all pages were run by this code")
        return int(bool(old))
    for page in sys.argv[1:] or PAGES:
        run(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
