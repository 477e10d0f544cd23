"""Bodies and joints of .bullet files. Bullet's reader may crash on a damaged file, so that it runs in a process of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

__all__ = ["reader"]

_program = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from linchpin.bullet_file import describe
describe(sys.argv[2], sys.argv[3])
"""


def reader() -> Callable[[str], tuple[str, str]]:
    """A function that returns the contents of a .bullet file as JSON, and the reason of a failure. It reads a file once."""
    known: dict[str, tuple[str, str]] = {}

    def read(path: str) -> tuple[str, str]:
        if path not in known:
            known[path] = _in_another_process(path)
        return known[path]

    return read


def describe(path: str, answer: str) -> None:
    """Writes the contents of a .bullet file as JSON to the file `answer`."""
    module = importlib.import_module("linchpin._bullet_float64")
    try:
        text, failure = module.describe_bullet_file(path), ""
    except RuntimeError as error:
        text, failure = "", str(error)
    with open(answer, "w", encoding="utf-8") as file:
        json.dump([text, failure], file)


def _in_another_process(path: str) -> tuple[str, str]:
    try:
        module = importlib.import_module("linchpin._bullet_float64")
    except ImportError as error:
        return "", f"cannot be read, because the host bullet-float64 cannot be used: {error}"
    if not hasattr(module, "describe_bullet_file"):
        return "", "cannot be read, because this build has no reader of .bullet files (Debian: libbullet-extras-dev)"
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.json")
        command = [sys.executable, "-c", _program, json.dumps(sys.path), os.path.abspath(path), answer]
        try:
            run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            return "", f"cannot be read: {error}"
        if run.returncode < 0:
            return "", f"is damaged: Bullet's reader of .bullet files ended with signal {-run.returncode}"
        if not os.path.exists(answer):
            return "", f"cannot be read: the process of Bullet's reader ended with exit code {run.returncode}"
        with open(answer, encoding="utf-8") as file:
            text, failure = json.load(file)
            return text, failure
