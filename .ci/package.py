"""Build the wheel and the sdist, look into them, and use the wheel as a new user would.

python .ci/package.py [PYTHON …]    the interpreters to install the wheel with, by default this one
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
MAX_BYTES = 6 * 2**20
ROWS = 300


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; its failure is ours."""
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked(*folders: str) -> set[str]:
    """Files of the repository, as they stand in the working tree."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders)
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def check_wheel(path: Path) -> None:
    """The wheel has the files of src, the licence, and nothing else."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    info = f"fairpc-{VERSION}.dist-info/"
    wanted = {name.removeprefix("src/") for name in tracked("src/fairpc")}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    compare(path, names, wanted | {info + name for name in about})
    needed = ("py.typed", "auditing/templates/page.html", "auditing/static/page.js")
    lacking = [name for name in needed if f"fairpc/{name}" not in names]
    if lacking:
        sys.exit(f"{path.name} lacks {lacking[0]}")


def check_sdist(path: Path) -> None:
    """The sdist has tracked files alone, and enough of them to run the tests."""
    with tarfile.open(path) as sdist:
        members = [PurePosixPath(m.name) for m in sdist.getmembers() if m.isfile()]
    names = {str(PurePosixPath(*member.parts[1:])) for member in members}
    top = {name for name in tracked() if "/" not in name and name.endswith(".md")}
    top |= {"CITATION.cff", "LICENSE", "Makefile", "pyproject.toml", ".gitignore", "PKG-INFO"}
    compare(path, names, tracked("benchmarks", "docs", "reproduction", "src", "tests") | top)


def compare(path: Path, names: set[str], wanted: set[str]) -> None:
    """End where a file is too many, or lacking."""
    for problem, which in (("lacks", wanted - names), ("must not hold", names - wanted)):
        if which:
            sys.exit(f"{path.name} {problem} {len(which)} files, such as {min(which)}")
    if path.stat().st_size > MAX_BYTES:
        sys.exit(f"{path.name} has {path.stat().st_size:,} bytes: {MAX_BYTES:,} are allowed")
    print(f"{path.name}: {len(names)} files, {path.stat().st_size:,} bytes")


def use(wheel: Path, python: str) -> None:
    """Install the wheel without extras in a folder of its own; fit, predict, ask, audit."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run(python, "-m", "venv", home / "venv")
        own = home / "venv" / "bin"
        run(own / "python", "-m", "pip", "install", "--quiet", "--no-compile", wheel)
        run(own / "python", "-m", "pip", "check")
        said = run(own / "fairpc", "--version", cwd=home)
        if VERSION not in said:
            sys.exit(f"fairpc --version says {said!r} and not {VERSION}")
        (home / "loans.csv").write_text(loans(), "utf-8")
        options = ("--label", "granted", "--positive", "yes", "--sensitive", "sex")
        options += ("--structure", "chow-liu")
        run(own / "fairpc", "fit", "loans.csv", *options, "-o", "loans.fairpc", cwd=home)
        run(own / "fairpc", "predict", "loans.fairpc", "loans.csv", "-o", "scored.csv", cwd=home)
        run(own / "fairpc", "query", "loans.fairpc", "Df=yes | sex=f, income=?", cwd=home)
        page = ("-o", "report.html", "--card", "card.md")
        run(own / "fairpc", "audit", "loans.fairpc", "loans.csv", *page, cwd=home)
        rows = (home / "scored.csv").read_text("utf-8").splitlines()
        if len(rows) != ROWS + 1 or "p_df_yes" not in rows[0]:
            sys.exit(f"fairpc predict wrote {len(rows)} lines that begin with {rows[0]!r}")
        if "</html>" not in (home / "report.html").read_text("utf-8"):
            sys.exit("fairpc audit wrote no whole page")
        if "# Model card" not in (home / "card.md").read_text("utf-8"):
            sys.exit("fairpc audit wrote no model card")
    print(f"{python}: installed without extras; fit, predict, query and audit ran")


def loans() -> str:
    """A small table, the same on every machine."""
    lines = ["income,job,sex,granted"]
    for i in range(ROWS):
        sex, income = "fm"[i % 2], 20 + (i * 37) % 61
        job = ("clerk", "nurse", "driver", "")[(i * 7) % 11 % 4]
        granted = income + 15 * (sex == "m") + (i * 53) % 29 > 70
        lines.append(f"{income},{job},{sex},{'yes' if granted else 'no'}")
    return "\n".join(lines) + "\n"


def main(pythons: list[str]) -> None:
    """Build, look, install, use."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    check_wheel(wheel)
    check_sdist(sdist)
    for python in pythons or [sys.executable]:
        use(wheel, python)


if __name__ == "__main__":
    main(sys.argv[1:])
