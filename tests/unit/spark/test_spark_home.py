"""Which SPARK_HOME does a local session get?"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from headrace.spark import session
from headrace.spark.spark_home import compiled_spark_home


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a package `pyspark` that looks like the installed one, on the path of this process and of its children."""
    package = tmp_path / "site" / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (package / name).mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "python" / "lib" / "pyspark.zip").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return package


def test_spark_home_has_all_but_the_zip_that_python_must_compile_each_time(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links lead to the installed package; made once, found again, and removed by the next one when the package has gone."""
    home = compiled_spark_home(tmp_path / "cache")
    assert home is not None
    assert sorted(each.name for each in home.iterdir()) == ["bin", "jars"]
    assert (home / "jars").resolve() == installed / "jars"
    assert compiled_spark_home(tmp_path / "cache") == home
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [home.name]
    installed.rename(installed.with_name("gone"))
    (tmp_path / "other").mkdir()
    shutil.move(installed.with_name("gone"), tmp_path / "other" / "pyspark")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "other"), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    other = compiled_spark_home(tmp_path / "cache")
    assert other is not None
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [other.name]


def test_spark_keeps_its_home_where_workers_would_not_find_pyspark(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that only this process has on its path reaches workers by the zip alone."""
    monkeypatch.delenv("PYTHONPATH")
    assert compiled_spark_home(tmp_path / "cache") is None
    monkeypatch.setenv("PYTHONPATH", str(installed.parent))
    (tmp_path / "file").touch()
    assert compiled_spark_home(tmp_path / "file" / "below") is None


def test_a_spark_home_that_was_chosen_is_kept(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets SPARK_HOME means another Spark, perhaps."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("JAVA_HOME", str(installed))
    monkeypatch.setattr(session, "has_java", lambda: True)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    session.prepare_environment()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
    monkeypatch.delenv("SPARK_HOME")
    session.prepare_environment()
    assert Path(os.environ["SPARK_HOME"], "jars").resolve() == installed / "jars"


def test_for_a_cluster_the_python_of_its_executors_stays_as_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's Python is this one; where nothing is said executors run the same path; no address is chosen for the driver."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "SPARK_HOME", "JAVA_HOME"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    session.prepare_environment(is_local=False)
    assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"]) == (sys.executable, sys.executable)
    assert "SPARK_LOCAL_IP" not in os.environ
    os.environ["PYSPARK_PYTHON"] = "./environment/bin/python"
    session.prepare_environment(is_local=False)
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"
    session.prepare_environment()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")
