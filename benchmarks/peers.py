"""Other libraries, each in an environment of its own, and child processes in general."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
HOME = ROOT.parent / ".venv-peers"

REQUIREMENTS = {
    "scipy": ("numpy", "scipy"),
    "scikit-learn": ("numpy", "scipy", "scikit-learn"),
    "botorch": ("numpy", "torch==2.13.0", "botorch==0.18.1"),
    "smurff": ("numpy", "scipy", "smurff"),
    "myfm": ("numpy", "scipy", "setuptools<81", "myfm"),  # it asks pkg_resources for its version
    # Its build needs these, and its import threadpoolctl, but it asks for none of them.
    "cmfrec": (
        "numpy", "scipy", "pandas", "threadpoolctl", "cython", "setuptools", "cmfrec",
    ),
}  # fmt: skip


def environment(name: str) -> Path:
    """Python of the environment of a peer, made on first use."""
    where = HOME / name
    python = where / "bin" / "python"
    done = where / ".installed"
    if not done.exists():
        requirements = REQUIREMENTS[name]
        print(f"installing {name} ({', '.join(requirements)}); this can take minutes", flush=True)
        venv.create(where, with_pip=True, clear=True)
        for requirement in requirements:
            subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        done.write_text("\n".join(requirements))
    return python


def run(module: str, *arguments: str, peer: str = "", timeout: float = 900, **variables) -> dict:
    """Run a module of this folder in a fresh process, here or in the environment of a peer.

    The last line that it prints is JSON. Failures are results too.
    """
    try:
        python = environment(peer) if peer else sys.executable
    except subprocess.CalledProcessError as error:
        return {"failed": f"could not be installed: {error}"}
    try:
        done = subprocess.run(
            [str(python), "-m", f"benchmarks.{module}", *arguments],
            capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT.parent,
            env=os.environ | variables,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"over {timeout:.0f} s"}
    if done.returncode < 0:
        return {"failed": f"crashed (signal {-done.returncode})"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"exit {done.returncode}: {last[:200]}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def keep(name: str, results: dict, out: Path = ROOT / "results") -> None:
    """Keep results as JSON: a file that is whole even if the run is killed meanwhile."""
    out.mkdir(parents=True, exist_ok=True)
    half = out / f"{name}.json.part"
    half.write_text(json.dumps(results, indent=2) + "\n")
    half.replace(out / f"{name}.json")
