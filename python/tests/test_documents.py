"""Programs in documents are those of python/examples."""

import re
import subprocess
import sys

import pytest
from conftest import SOURCE

PATTERN = re.compile(r"<!-- python: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
FOUND = [
    (path, name, code)
    for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
    for name, code in PATTERN.findall(path.read_text())
]


@pytest.mark.parametrize("path, name, code", FOUND, ids=[f"{path.name}-{name}" for path, name, _ in FOUND])
def test_a_program_in_a_document_is_an_example(path, name, code):
    example = (SOURCE / "python" / "examples" / f"{name}.py").read_text()
    assert example.split('"""', 2)[2].strip() == code.strip()


def test_printed_lines_in_documents_are_those_of_the_example():
    path = SOURCE / "docs" / "how-to" / "python.md"
    (block,) = re.findall(r"It prints:\n\n```text\n(.*?)```", path.read_text(), re.DOTALL)
    example = SOURCE / "python" / "examples" / "pendulum.py"
    printed = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True).stdout
    assert block == printed


def test_other_blocks_are_python():
    pages = SOURCE / "docs" / "how-to"
    for path in [*pages.glob("py*.md"), pages / "mujoco-python.md"]:
        for block in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
            compile(block, str(path), "exec")
    assert len(FOUND) == 2
