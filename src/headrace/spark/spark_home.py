"""A SPARK_HOME whose Python workers read PySpark as it is installed, compiled.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` before everything else on its workers' path. Python keeps no compiled code of what is in a zip, so each kind of worker compiles
PySpark anew at its start, and a first query starts several: about one core-second and a half. A SPARK_HOME without that zip leaves them the installed package, which is the same one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import site
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_PARTS: Final = ("bin", "conf", "data", "jars", "sbin")
"""What Spark's scripts look for; `python` is what is left out."""


def compiled_spark_home(cache: Path) -> Path | None:
    """A directory below `cache` that links to the installed PySpark; None where it is not installed in a way that workers find by themselves."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    package = Path(found.origin).parent
    if not (package / "jars").is_dir() or not _is_found_by_workers(package.parent):
        return None
    digest = hashlib.sha256(f"{package} {package.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    home = cache / f"spark-home-{digest}"
    with suppress(OSError):  # no place to write to: Spark finds its home itself
        if not home.is_dir():
            _make(home, package)
        return home
    return None


def _is_found_by_workers(directory: Path) -> bool:
    """Whether an interpreter that Spark starts, this one, has the directory on its path too."""
    named = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    if site.ENABLE_USER_SITE:
        named.append(site.getusersitepackages())
    return any(each and Path(each).is_absolute() and Path(each).resolve() == directory.resolve() for each in named)


def _make(home: Path, package: Path) -> None:
    """Put it there whole: another process may be about to use it, or to make the same."""
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in home.parent.glob("spark-home-*"):
        if not (each / "jars").exists():  # that PySpark has been removed
            shutil.rmtree(each, ignore_errors=True)
    made = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        for name in _PARTS:
            if (package / name).exists():
                (made / name).symlink_to(package / name)
        with suppress(FileExistsError):
            made.rename(home)
    finally:
        shutil.rmtree(made, ignore_errors=True)
