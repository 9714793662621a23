"""Other libraries, each in an environment of its own, run as child processes."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
HOME = ROOT.parent / ".venv-peers"


def environment(name: str, *requirements: str) -> Path:
    """Python of the environment called ``name``, made on first use."""
    where = HOME / name
    python = where / "bin" / "python"
    done = where / ".installed"
    if not done.exists():
        print(f"installing {name} ({', '.join(requirements)}); this can take minutes", flush=True)
        venv.create(where, with_pip=True, clear=True)
        for requirement in requirements:
            subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        done.write_text("\n".join(requirements))
    return python


def run(python: Path, script: str, *arguments: str, timeout: float = 900) -> dict:
    """Run a script of this folder; its last line of output is JSON. Failures are results too."""
    command = [str(python), str(ROOT / script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {timeout:.0f} s"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"exit {done.returncode}: {last[:200]}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(name: str, results: dict) -> None:
    """Print results and keep them as JSON."""
    text = json.dumps(results, indent=2)
    out = ROOT / "results"
    out.mkdir(exist_ok=True)
    (out / f"{name}.json").write_text(text + "\n")
    print(text, file=sys.stdout)
