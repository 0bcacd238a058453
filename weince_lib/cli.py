"""The ``weince`` command; each sub-command is a line or two over the library."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import click

from . import errors


class _Friendly(click.Group):
    """Shows errors that a user can mend as one line; see :mod:`weince_lib.errors`."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except errors.SHOWN as error:
            raise click.ClickException(errors.one_line(error)) from error
        except Exception as error:
            error.add_note(errors.UNEXPECTED)
            raise


@click.group(cls=_Friendly, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="weince-lib")
def main() -> None:
    """Companion to 'When Softmax Fails at the Top: Extreme-Value Corrections for InfoNCE'."""


@main.command()
@click.argument("notebook")
@click.option(
    "-p",
    "--parameter",
    "given",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="Change a parameter; may be repeated.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write the copy.")
@click.option("--timeout", type=int, help="Seconds a cell may take, 0: any; quick has 600.")
def run(
    notebook: str, given: Sequence[tuple[str, str]], output: Path | None, timeout: int | None
) -> None:
    r"""Execute NOTEBOOK in batch (papermill), from any folder.

    \b
    Example: weince run 06_train_vision -p loss weince -p seed 7
    """
    from .experiments import notebooks

    values = {name: notebooks.parse_value(text) for name, text in given}
    kind, _, folder = str(values.get("dataset", "")).partition(":")
    if folder:  # given from here, read in the kernel's own folder
        values["dataset"] = f"{kind}:{Path(folder).absolute()}"
    name = notebooks.source_path(notebook).stem
    if timeout is None:  # a cell that trains for hours is no cell that hangs
        timeout = notebooks.CELL_TIMEOUT if values.get("profile", "quick") == "quick" else 0
    limit = timeout if timeout > 0 else -1
    progress = sys.stderr.isatty()
    try:
        target = notebooks.run(name, values, output=output, timeout=limit, progress=progress)
    except notebooks.FAILURES as error:
        raise click.ClickException(f"{name}: {notebooks.reason(error)}") from error
    click.echo(target)


@main.command("notebooks")
@click.option("--headers", is_flag=True, help="Only renew headers and contents; execute nothing.")
@click.argument("only", nargs=-1)
def rebuild(headers: bool, only: Sequence[str]) -> None:
    """Rebuild the committed notebooks (all, or ONLY these), executed in the quick profile."""
    from .experiments import notebooks, reading

    if headers:
        for name in reading.update([notebooks.source_path(n).stem for n in only]):
            click.echo(name)
        return
    for name in [notebooks.source_path(n).stem for n in only] or notebooks.names():
        try:
            click.echo(notebooks.execute_reference(name))
        except notebooks.FAILURES as error:
            raise click.ClickException(f"{name}: {notebooks.reason(error)}") from error


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--port", default=0, help="To listen on; by default the first free one from 8888.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NOTEBOOK] [OPTIONS]")
def lab(port: int, words: Sequence[str]) -> None:
    r"""Open NOTEBOOK (the overview by default) in JupyterLab; OPTIONS go to `jupyter lab`.

    \b
    Example: weince lab 05_weince_loss --no-browser
    """
    from .experiments import lab as server

    named = bool(words) and not words[0].startswith("-")
    notebook = words[0] if named else "00_overview"
    server.open_lab(server.lab_command(notebook, port=port, more=words[named:]))


@main.command()
@click.option("--repo", metavar="OWNER/NAME", help="The repository on GitHub.")
@click.option("--ref", default="main", show_default=True, help="The tag or branch to open.")
@click.option("--remove", is_flag=True, help="Take badges and address out again.")
def badges(repo: str | None, ref: str, remove: bool) -> None:
    """Write Colab and Binder badges into README and notebooks; the same call twice is one."""
    from .experiments import badges as writing

    if remove == bool(repo):
        raise click.UsageError("give --repo OWNER/NAME, or --remove")
    changed, behind = writing.write(repo, ref)
    for path in changed:
        click.echo(path)
    if behind:
        names = " ".join(path.stem for path in behind)
        raise click.ClickException(
            f"left alone, as behind their sources: {names}; now run: weince notebooks {names}"
        )


@main.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), help="By default runs/site.")
def site(output: Path | None) -> None:
    """Build the static site from the executed notebooks, the claims and the docstrings."""
    from .site import build

    click.echo(build(output))


@main.command()
@click.option("--profile", default="quick", show_default=True, help="Names the table.")
@click.option("--fresh", is_flag=True, help="Drop the table's rows of records that are not here.")
@click.argument("records", nargs=-1, type=click.Path(exists=True, path_type=Path))
def collect(profile: str, fresh: bool, records: Sequence[Path]) -> None:
    """Add RECORDS, or all of the profile under runs/, to paper/results/PROFILE.csv."""
    from .experiments import collect as collecting
    from .experiments.config import profile_defaults

    profile_defaults(profile)
    done = collecting.collect(records or collecting.records_of(profile), profile, keep=not fresh)
    for line in done.skipped:
        click.echo(f"skipped: {line}", err=True)
    for path, count in done.written.items():
        click.echo(f"{path}: {count} records")


@main.command()
@click.option("--profile", help="Only this profile's results; by default the strongest.")
@click.option("--record", metavar="KEY", help="Print what the record of this key was made with.")
def claims(profile: str | None, record: str | None) -> None:
    """Print every claim: verdict, the paper's value, ours with its interval, limits, record."""
    if record is not None:
        from .experiments.record_lines import find_lines

        click.echo("\n".join(find_lines(record)))
        return
    from .experiments.claims import VERDICTS, decide_all
    from .experiments.config import profile_defaults

    if profile:
        profile_defaults(profile)
    decisions = decide_all(profile)
    for d in decisions:
        click.secho(f"{d.verdict:<23} {d.claim.label}: {d.claim.id}", bold=True)
        for label, text in (
            ("claim", d.claim.statement),
            ("paper", d.paper),
            ("ours", f"{d.ours}   ({d.evidence})" if d.ours else ""),
            ("limits", d.limits),
            ("needs", d.needs),
            ("doubt", d.claim.doubt),
            ("records", ", ".join(d.records)),
            ("notebook", d.claim.notebook),
        ):
            if text:
                click.echo(
                    textwrap.fill(
                        text, 96, initial_indent=f"  {label:<9}", subsequent_indent=" " * 11
                    )
                )
    counts = {v: sum(d.verdict == v for d in decisions) for v in VERDICTS}
    found = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    click.echo(f"{len(decisions)} claims: {found}")


@main.command()
def paper() -> None:
    """Rebuild paper/companion.pdf from the claims, the results and the figures."""
    from .experiments import companion

    click.echo(companion.build())


@main.group()
def data() -> None:
    """Data sets: what is on this machine, and whether it is whole.

    They lie in data/ under the project root, or in the folder that WEINCE_DATA names.
    """


@data.command("list")
def list_data() -> None:
    """Print every data set: there, incomplete or missing, its size and its place."""
    from .vision.datasets import holdings

    for held in holdings():
        size = f"{held.bytes / 1e6:,.0f} MB" if held.bytes else ""
        click.echo(f"{held.name:<15}{held.state:<12}{size:>10}  {held.where}")


@data.command("check")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def check_data(names: Sequence[str]) -> None:
    """Verify hashes and counts of data sets; nothing is downloaded.

    Example: weince data check cifar10 imagefolder:data/cifar10-jpeg
    """
    from .vision.datasets import check, title

    bad = 0
    for name in names:
        with errors.checking_input():
            findings = check(name)
        click.secho(title(name), bold=True)
        for finding in findings:
            click.echo(f"  {'ok ' if finding.ok else 'BAD'}  {finding.text}")
        bad += not all(finding.ok for finding in findings)
    if bad:
        raise click.ClickException(f"{bad} of {len(names)} data sets are not whole")


@main.command()
@click.argument("embeddings", type=click.Path(path_type=Path))
@click.option("--pairs", type=click.Path(path_type=Path), help="Positive pairs: two rows a line.")
@click.option("--labels", type=click.Path(path_type=Path), help="One label a row.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report.")
@click.option("--temperature", default=0.5, show_default=True, help="tau of the loss.")
@click.option("--batch-size", default=256, show_default=True, help="Pairs per batch of the loss.")
@click.option("--seed", default=0, show_default=True, help="Of every draw.")
def diagnose(
    embeddings: Path,
    pairs: Path | None,
    labels: Path | None,
    out: Path | None,
    temperature: float,
    batch_size: int,
    seed: int,
) -> None:
    r"""Say whether the tail of EMBEDDINGS has an endpoint, and what WEINCE would do there.

    EMBEDDINGS is a .npy, .npz, .pt, .safetensors, .csv or .parquet file, one row per item. Writes
    report.html and report.json, by default to a folder beside it. A run that was cut goes on.

    \b
    Example: weince diagnose embeddings.npy --labels labels.csv --out report
    """
    from . import diagnostics

    if pairs and labels:
        raise click.UsageError("give --pairs or --labels, not both")
    folder = out or embeddings.with_name(f"{embeddings.stem}-diagnosis")
    with errors.checking_input():
        z = diagnostics.load_embeddings(embeddings)
        found = diagnostics.diagnose(
            z,
            pairs=diagnostics.load_pairs(pairs, len(z)) if pairs else None,
            labels=diagnostics.load_labels(labels, len(z)) if labels else None,
            temperature=temperature,
            batch_size=batch_size,
            store=folder / "bank",
            seed=seed,
            progress=True,
        )
    # Said before the report is written, so that a full disk does not take the answer along.
    click.secho(found.verdict, bold=True)
    click.echo(textwrap.fill(found.reason, 96))
    click.echo(found.save(folder, name=embeddings.name))


@main.command()
@click.argument("study", required=False)
@click.option("--step-ms", type=float, help="Milliseconds of a step elsewhere; else measured here.")
def plan(study: str | None, step_ms: float | None) -> None:
    r"""Print runs, hours and disk of STUDY, and what of it failed; without STUDY, the studies.

    \b
    Example: weince plan cpu-fashion
    """
    from .experiments import grid
    from .experiments import plan as planning

    if study is None:
        for name, known in grid.STUDIES.items():
            click.echo(
                textwrap.fill(
                    known.question, 96, initial_indent=f"{name:<27}", subsequent_indent=" " * 27
                )
            )
        return
    seconds = None if step_ms is None else step_ms / 1000
    for line in planning.plan(grid.study(study), step_seconds=seconds).lines():
        click.echo(textwrap.fill(line, 96, subsequent_indent=" " * 8))


@main.command()
@click.option("-o", "--output", default="constraints.txt", type=click.Path(path_type=Path))
def lock(output: Path) -> None:
    """Write the versions of everything installed, as a pip constraints file."""
    from . import files

    pins = {
        re.sub(r"[-_.]+", "-", d.name).lower(): d.version
        for d in metadata.distributions()
        if d.name and d.name not in ("weince-lib", "pip", "setuptools", "wheel")
    }
    # Accelerator libraries follow torch's own pins, which differ by platform.
    kept = {n: v for n, v in pins.items() if not n.startswith(("nvidia-", "cuda-", "triton"))}
    # Torch's own build differs by processor; elsewhere pyproject.toml's bounds decide.
    only = dict.fromkeys(("torch", "torchvision"), ' ; platform_machine == "x86_64"')
    lines = ["# Versions the committed outputs were made with; written by `make lock`."]
    lines += [f"{n}=={v}{only.get(n, '')}" for n, v in sorted(kept.items())]
    files.write_text(output, "\n".join(lines) + "\n")
    click.echo(f"{output}: {len(kept)} packages")


if __name__ == "__main__":
    main()
