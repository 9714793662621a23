"""Saving and loading a model: a manifest of what it is made of, and its arrays, in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

from sklearn.utils.validation import check_is_fitted

import kronfill
from kronfill._atomic import written_whole
from kronfill.completion import Completion
from kronfill.errors import (
    MemoryLimitError,
    MissingDependencyError,
    ModelFileError,
    StorageError,
)
from kronfill.io.arrays import ArrayReader, sha256
from kronfill.io.classes import MODELS, RECORDS, is_fitted
from kronfill.io.container import Container, write_container
from kronfill.io.frames import FRAMES
from kronfill.io.functions import FUNCTIONS, by_name
from kronfill.io.generators import GENERATORS
from kronfill.io.limits import refuse
from kronfill.io.records import object_codec, read_object
from kronfill.io.values import BASIC, Reader, Writer

__all__ = ["VERSION", "load", "save", "write_model"]

FORMAT = "kronfill model"
VERSION = 1
"""Raised when a file can hold what an older kronfill would misread; all earlier ones are read."""
MANIFEST, CHECKSUM = "manifest.json", "manifest.sha256"
MAX_MANIFEST = 2**24
_OBJECT = object_codec({record.kind: record for record in RECORDS.values()})
_CODECS = (_OBJECT, FUNCTIONS, GENERATORS, *FRAMES, *BASIC)
_KEYS = {"format", "version", "kronfill", "arrays", "objects", "model"}


def save(model: Any, path: Any) -> None:
    """Write a model to a file.

    Parameters
    ----------
    model : KKMCEX, RRMCEX, KMC, IMC, MC, BayesianKMC, ConformalRegressor or Completion
        A fitted estimator or a completed table.
    path : str or path
        Where to. A file of this name is replaced, in one step, once the new one is complete.

    Raises
    ------
    ModelFileError
        If the model holds something that has no place in a file, or the file cannot be written; a
        file that was there before is as it was.

    Examples
    --------
    >>> import tempfile, pathlib, kronfill as kf
    >>> from kronfill.io import load, save
    >>> est = kf.MC(rank=1).fit([[0, 0], [1, 1]], [1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(est, pathlib.Path(folder) / "model.kf")
    ...     same = load(pathlib.Path(folder) / "model.kf")
    >>> bool((same.predict_matrix() == est.predict_matrix()).all())
    True
    """
    parts = _parts(model)
    target = _path(path)
    if target.is_dir():
        msg = f"{target} is a folder; give the name of a file in it, such as model.kf."
        raise ModelFileError(msg)
    try:
        with written_whole(target) as file:
            write_container(file, parts)
    except StorageError as error:
        msg = f"{error} What was there before is unchanged."
        raise ModelFileError(msg) from error


def write_model(model: Any, file: BinaryIO) -> None:
    """Write a model into a file that is open already: see :func:`save`."""
    write_container(file, _parts(model))


def _parts(model: Any) -> dict[str, bytes | memoryview]:
    """The entries of a model file by name."""
    if type(model) not in MODELS:
        names = ", ".join(kind.__name__ for kind in MODELS)
        msg = f"A {type(model).__name__} cannot be saved; these can: {names}.{_instead(model)}"
        raise ModelFileError(msg)
    if not isinstance(model, Completion):
        check_is_fitted(model)
    writer = Writer(_CODECS)
    root = writer.node(model)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "kronfill": kronfill.__version__,
        "arrays": writer.arrays.table,
        "objects": writer.objects,
        "model": root,
    }
    text = json.dumps(manifest, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > MAX_MANIFEST:
        msg = (
            f"What is not arrays takes {len(text)} bytes, more than the {MAX_MANIFEST} that a "
            "model file allows. Labels of one type (all text, all numbers) take least."
        )
        raise ModelFileError(msg)
    parts: dict[str, bytes | memoryview] = {CHECKSUM: sha256(text).encode("ascii"), MANIFEST: text}
    parts.update(writer.arrays.parts)
    return parts


def _instead(model: Any) -> str:
    """Where what can be saved of a search, or of a pipeline of scikit-learn, is found."""
    for name in ("estimator_", "best_estimator_", "estimator"):
        if type(getattr(model, name, None)) in MODELS and is_fitted(getattr(model, name)):
            return f" Save what it found, which predicts the same: its attribute {name}."
    return ""


def load(path: Any, *, verify: bool = True, functions: Any = None) -> Any:
    """Read a model that was saved with ``save``.

    The file is looked at as data, never run: it can hold nothing but numbers, text and the classes
    of kronfill, and every byte of it is checked. Opening it takes a small multiple of its size,
    whoever wrote it.

    Parameters
    ----------
    path : str or path
        The file.
    verify : bool, default=True
        False leaves out the comparison of large arrays (floats, 1 MiB and more) with their
        checksums, which reads the whole file once: for very large files that are known to be good.
    functions : list of callable or dict of str to callable, optional
        The functions of its kernels, if they were built by :func:`kronfill.kernels.from_function`.
        A list goes by the names that the functions have; a dictionary says for each name in the
        file, such as ``"module:function"``, what it stands for.

    Returns
    -------
    KKMCEX, RRMCEX, KMC, IMC, MC, BayesianKMC, ConformalRegressor or Completion
        What was saved. Large arrays of floats stay in the file and are mapped into memory,
        read-only: do not change the file in place while the model is in use (saving over it is
        safe).

    Raises
    ------
    ModelFileError
        If the file is not there, not a model, truncated, changed, of a newer version, would take
        far more memory than its size, or needs a function that was not handed over.

    Examples
    --------
    >>> import tempfile, pathlib, kronfill as kf
    >>> est = kf.MC(rank=1).fit([[0, 0], [1, 1]], [1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     est.save(pathlib.Path(folder) / "model.kf")
    ...     kf.load(pathlib.Path(folder) / "model.kf")
    MC(rank=1)
    """
    target, known = _path(path), by_name(functions)
    container = Container(target)
    manifest: dict[str, Any] = {}
    try:
        manifest = _manifest(container)
        arrays = ArrayReader(container, manifest["arrays"], verify)
        reader = Reader(_CODECS, arrays, manifest["objects"], _read, known)
        return _model(reader, manifest["model"])
    except (ModelFileError, MissingDependencyError, MemoryLimitError):
        raise
    except Exception as error:  # constructors may raise anything at values that no model has
        said = str(error)[:300].rstrip(".") or type(error).__name__
        msg = f"{target} is damaged or was changed: {said}. Copy or save it again."
        raise ModelFileError(msg + _of_another(manifest.get("kronfill"))) from error


def _of_another(writer: Any) -> str:
    """What is new in a later kronfill looks like damage to an earlier one."""
    if writer is None or writer == kronfill.__version__:
        return ""
    return (
        f" Or it was not damaged: it was written by kronfill {writer!s:.20}, and this is kronfill "
        f"{kronfill.__version__}. If that is newer, upgrade: pip install --upgrade kronfill."
    )


def _path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError:
        msg = f"path must be the name of a file, got {path!r}."
        raise ModelFileError(msg) from None


def _manifest(container: Container) -> dict[str, Any]:
    """Read the manifest, if it has the checksum that goes with it and is of a known version."""
    text = container.read(MANIFEST, MAX_MANIFEST)
    if container.read(CHECKSUM, 64).decode("ascii", "replace") != sha256(text):
        refuse("the manifest does not have the checksum that was stored")
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        refuse("the manifest is not that of a kronfill model")
    version = manifest.get("version")
    if type(version) is not int:
        refuse("the manifest has no version")
    if version > VERSION:
        msg = (
            f"{container.path} was written by kronfill {manifest.get('kronfill')!s:.20} in version "
            f"{version} of the format; this is kronfill {kronfill.__version__}, which reads up to "
            f"version {VERSION}. Upgrade: pip install --upgrade kronfill."
        )
        raise ModelFileError(msg)
    if version != VERSION or set(manifest) != _KEYS or not isinstance(manifest["objects"], list):
        refuse(f"the manifest, of version {version!r:.20}, is not as it should be")
    entries = {line.get("entry") for line in manifest["arrays"]}
    expected = [CHECKSUM, MANIFEST, *(f"{number}.bin" for number in range(len(entries)))]
    if container.names != expected or entries != set(expected[2:]):
        refuse("its entries are not those that the manifest lists")
    return manifest


def _read(reader: Reader, line: Any) -> Any:
    return read_object(reader, line, RECORDS)


def _model(reader: Reader, root: Any) -> Any:
    model = reader.value(root)
    if type(model) not in MODELS:
        refuse(f"it holds a {type(model).__name__}, not a model")
    if not is_fitted(model):
        refuse(f"it holds a {type(model).__name__} without what a fit leaves behind")
    if not reader.is_done:
        refuse("it has objects that are no part of the model")
    return model
