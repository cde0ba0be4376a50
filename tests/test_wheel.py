"""What is published: the wheel alone, in a fresh environment, goes from files to a report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener
from zipfile import ZipFile

import pytest

import nora

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def done(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints; it must succeed. Nothing points it to the sources."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    environment.pop("PYTHONPATH", None)
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built as `make dist` builds it: the wheel from the sdist, the sdist from the repository."""
    if find_spec("build") is None or find_spec("hatchling") is None:
        pytest.skip("no build or hatchling: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ".", cwd=ROOT)
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (found,) = folder.glob("*.whl")
    return found


def fresh(folder: Path, wheel: Path, installer: str) -> Path:
    """The `bin` of an environment with the wheel; others' packages are lent by this one."""
    venv.create(folder, with_pip=False)
    inside = folder / "bin" / "python"
    if installer == "uv":
        if UV is None:
            pytest.skip("no uv: pip install -e '.[dev]'")
        done(UV, "pip", "install", "--offline", "--no-deps", "--python", inside, wheel, cwd=folder)
    else:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", inside]
        done(*pip, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Folders named in a .pth are searched, but .pth files in them are not read: an editable install
    # of the sources there stays invisible.
    lent = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "lent.pth").write_text("\n".join(lent), encoding="utf-8")
    return folder / "bin"


def installed_at(bin_folder: Path, cwd: Path) -> Path:
    code = "import nora; print(nora.__file__)"
    return Path(done(bin_folder / "python", "-c", code, cwd=cwd).strip())


def test_three_commands_lead_from_the_wheel_to_a_report(wheel, tmp_path):
    bin_folder = fresh(tmp_path / "env", wheel, "pip")
    work = tmp_path / "work"
    work.mkdir()
    assert installed_at(bin_folder, work).is_relative_to(tmp_path / "env")
    command = bin_folder / "nora"
    caught = done(command, "demo", cwd=work)
    assert "The most influential accounts" in caught
    assert f"{command} explore --demo" in caught
    assert (work / "demo" / "influence.png").stat().st_size > 10_000
    done(command, "example", "files", cwd=work)
    inputs = [f"--{name}=files/{name}.csv" for name in ("edges", "features", "labels")]
    done(command, "run", *inputs, "--out", "results", cwd=work)
    page = (work / "results" / "report.html").read_text(encoding="utf-8")
    assert "<script" in page
    assert "Remove a node" in page
    assert_the_explorer_opens(command, work)


def assert_the_explorer_opens(command: Path, work: Path) -> None:
    """Its page and everything the page loads comes from the wheel."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with subprocess.Popen(
        [command, "explore", "results", "--no-browser"],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            lines = (line for line in started.stdout if line.startswith("Explorer: "))
            address = next(lines, "").removeprefix("Explorer: ").strip()
            assert address, started.stderr.read()
            client = build_opener(ProxyHandler({}), HTTPCookieProcessor())
            client.open(address, timeout=20)  # lets this client in
            page = client.open(urljoin(address, "/"), timeout=20).read().decode()
            assert "The explorer needs JavaScript" in page
            loaded = re.findall(r'<(?:script|link)[^>]* (?:src|href)="(?!data:)([^"#]+)"', page)
            assert loaded
            for one in loaded:
                assert len(client.open(urljoin(address, one), timeout=20).read()) > 100, one
        finally:
            started.terminate()


def test_uv_installs_the_wheel_too(wheel, tmp_path):
    bin_folder = fresh(tmp_path / "env", wheel, "uv")
    assert installed_at(bin_folder, tmp_path).is_relative_to(tmp_path / "env")
    assert "what-if" in done(bin_folder / "nora", "--help", cwd=tmp_path)


def test_everything_beside_the_code_is_in_the_wheel(wheel):
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "nora").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = set(ZipFile(wheel).namelist())
    assert sources <= packed
    assert "nora/py.typed" in packed
    assert not [name for name in packed - sources if ".dist-info/" not in name]


def test_the_sdist_holds_all_that_the_repository_does(wheel):
    if not (ROOT / ".git").exists():
        pytest.skip("no repository to compare with: this is a sdist")
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    tracked = done("git", "ls-files", cwd=ROOT).split()
    assert len(tracked) > 500
    assert [name for name in tracked if name not in packed and (ROOT / name).exists()] == []


def test_the_wheel_says_what_it_is(wheel):
    archive = ZipFile(wheel)
    (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
    reply = message_from_bytes(archive.read(name))
    assert reply["Version"] == nora.__version__
    assert reply["License-Expression"] == "MIT"
    folder = name.removesuffix("METADATA") + "licenses/"
    for licence in reply.get_all("License-File"):
        assert archive.read(folder + licence) == (ROOT / licence).read_bytes()
    assert "src/nora/report/assets/LICENSES.txt" in reply.get_all("License-File")
