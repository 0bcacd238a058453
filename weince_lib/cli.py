"""The ``weince`` command; each sub-command is a line or two over the library."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Literal

import click

from . import errors

#: Exit status after Ctrl-C or SIGTERM, as shells give it for Ctrl-C.
STOPPED = 130


class _Friendly(click.Group):
    """Shows errors that a user can mend, and a stop, as one line; see :mod:`weince_lib.errors`."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stopped:  # click alone would say "Aborted!"
            click.echo(str(stopped) or "stopped", err=True)
            raise click.exceptions.Exit(STOPPED) from stopped
        except errors.SHOWN as error:
            raise click.ClickException(errors.one_line(error)) from error
        except Exception as error:
            error.add_note(errors.UNEXPECTED)
            raise


@contextmanager
def _stoppable(advice: str) -> Iterator[None]:
    """End a long command at Ctrl-C or SIGTERM with one line of what to do next.

    SIGINT stays ignored where a script started the command in the background; SIGTERM stops it.
    """
    from .training.stopping import sigterm_interrupts

    try:
        with sigterm_interrupts():
            yield
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(f"stopped; {advice}") from stopped


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
    """Execute NOTEBOOK in batch (papermill), from any folder.

    Example: weince run 06_train_vision -p loss weince -p seed 7
    """
    from .publish import notebooks

    values = {name: notebooks.parse_value(text) for name, text in given}
    kind, _, folder = str(values.get("dataset", "")).partition(":")
    if folder:  # given from here, read in the kernel's own folder
        values["dataset"] = f"{kind}:{Path(folder).absolute()}"
    name = notebooks.source_path(notebook).stem
    if timeout is None:  # a cell that trains for hours is no cell that hangs
        timeout = notebooks.CELL_TIMEOUT if values.get("profile", "quick") == "quick" else 0
    limit = timeout if timeout > 0 else -1
    progress = sys.stderr.isatty()
    advice = f"{name} was not written; training continues from its last checkpoint if run again"
    try:
        with _stoppable(advice):
            target = notebooks.run(name, values, output=output, timeout=limit, progress=progress)
    except notebooks.FAILURES as error:
        raise click.ClickException(f"{name}: {notebooks.reason(error)}") from error
    click.echo(target)


@main.command("notebooks")
@click.option("--headers", is_flag=True, help="Only renew text from the sources; execute nothing.")
@click.argument("only", nargs=-1)
def rebuild(headers: bool, only: Sequence[str]) -> None:
    """Rebuild the committed notebooks (all, or ONLY these), executed in the quick profile."""
    from .publish import notebooks

    names = [notebooks.source_path(n).stem for n in only] or notebooks.names()
    if headers:
        for name in names:
            click.echo(notebooks.refresh(name))
        return
    for name in names:
        try:
            with _stoppable(f"{name} stays as it was; to go on: weince notebooks {name}"):
                click.echo(notebooks.execute_reference(name))
        except notebooks.FAILURES as error:
            raise click.ClickException(f"{name}: {notebooks.reason(error)}") from error


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--port", default=0, help="To listen on; by default the first free one from 8888.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[NOTEBOOK] [OPTIONS]")
def lab(port: int, words: Sequence[str]) -> None:
    """Open NOTEBOOK (the overview by default) in JupyterLab; OPTIONS go to `jupyter lab`.

    Example: weince lab 05_weince_loss --no-browser
    """
    from .publish import lab as server

    named = bool(words) and not words[0].startswith("-")
    notebook = words[0] if named else "00_overview"
    server.open_lab(notebook, port, words[named:])


@main.command()
@click.option("--repo", metavar="OWNER/NAME", help="The repository on GitHub.")
@click.option("--ref", default="main", show_default=True, help="The tag or branch to open.")
@click.option("--remove", is_flag=True, help="Take badges and address out again.")
def badges(repo: str | None, ref: str, remove: bool) -> None:
    """Write Colab and Binder badges into README and notebooks; the same call twice is one."""
    from .publish import badges as writing

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
    from .publish.site import build

    click.echo(build(output))


@main.command()
@click.option("--profile", default="quick", show_default=True, help="Names the table.")
@click.option("--fresh", is_flag=True, help="Drop the table's rows of records that are not here.")
@click.argument("records", nargs=-1, type=click.Path(exists=True, path_type=Path))
def collect(profile: str, fresh: bool, records: Sequence[Path]) -> None:
    """Add RECORDS, or all of the profile under runs/, to paper/results/PROFILE.csv."""
    from .runs.config import profile_defaults
    from .studies import collect as collecting

    profile_defaults(profile)
    done = collecting.collect(records or collecting.records_of(profile), profile, keep=not fresh)
    for line in done.skipped:
        click.echo(f"skipped: {line}", err=True)
    for path, count in done.written.items():
        click.echo(f"{path}: {count} records")


@main.command("encoders")
@click.option("--make", is_flag=True, help="Train KEYS (by default all) and write them, to commit.")
@click.argument("keys", nargs=-1)
def committed_encoders(make: bool, keys: Sequence[str]) -> None:
    """Verify the committed encoders: each line has a key, what it is, and the hash of its file."""
    from .runs import encoders

    known = {encoders.key_of(config): config for config in encoders.configs()}
    for key in keys:
        if key not in known:
            raise click.UsageError(f"no encoder {key!r} is committed; known: {', '.join(known)}")
    missing = []
    for key in keys or known:
        config = known[key]
        if make:
            with _stoppable("encoders written are kept; the same command goes on"):
                click.echo(encoders.commit_encoder(config))
            continue
        record = encoders.committed_record(config)
        missing += [] if record else [key]
        state = record.details["encoder"]["sha256"][:16] if record else "not there"
        click.echo(f"{key}  {config.label:<8} seed {config.seed:<3} {state}")
    if missing:
        raise click.ClickException(
            f"{len(missing)} of {len(keys or known)} encoders are not there; restore them with "
            f"git, or make them anew: weince encoders --make {' '.join(missing)}"
        )
    if make:
        click.echo("Measure anew what rests on them: make notebooks")


@main.command()
@click.option("--seed", default=7, show_default=True, help="The encoder seed.")
def retrain(seed: int) -> None:
    """Train one InfoNCE and one WEINCE encoder here and measure them as the committed were.

    The numbers go to retrained.csv beside quick.csv; `weince findings` shows both.
    """
    from .studies import retrained

    with _stoppable("what is finished is kept; the same command goes on"):
        click.echo(retrained.write(seed))


@main.command()
@click.option("--profile", help="Only this profile's table and the studies; else the strongest.")
@click.option(
    "--claims", type=click.Path(path_type=Path), help="Write the list of claims to this file, too."
)
def findings(profile: str | None, claims: Path | None) -> None:
    """Print what was found, what was measured here beside it, and the verdicts counted."""
    from .publish import findings as summary
    from .runs.config import profile_defaults

    if profile:
        profile_defaults(profile)
    click.echo("\n".join(summary.lines(profile, claims)))


@main.command()
@click.option("--profile", help="Only this profile's table and the studies; else the strongest.")
@click.option("--record", metavar="KEY", help="Print what the record of this key was made with.")
def claims(profile: str | None, record: str | None) -> None:
    """Print every claim: verdict, the paper's value, ours with its interval, limits, record."""
    if record is not None:
        from .records.record_lines import find_lines

        click.echo("\n".join(find_lines(record)))
        return
    from .publish.claims import decide_all, full_list
    from .runs.config import profile_defaults

    if profile:
        profile_defaults(profile)
    for line in full_list(decide_all(profile)):
        click.secho(line, bold=not line.startswith(" "))


@main.command()
def paper() -> None:
    """Rebuild paper/companion.pdf from the claims, the results and the figures."""
    from .publish import companion

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


@data.command("unpack")
@click.argument("archive", type=click.Path(path_type=Path))
def unpack_data(archive: Path) -> None:
    """Verify the archive of CIFAR-10 (JPEG) and unpack it into the data folder.

    Example: weince data unpack cifar10-imagefolder.tar.gz
    """
    from . import paths
    from .vision.datasets import cifar10_jpeg

    click.echo(cifar10_jpeg.unpack(archive, paths.data()))


@main.command()
@click.argument("embeddings", type=click.Path(path_type=Path))
@click.option("--pairs", type=click.Path(path_type=Path), help="Positive pairs: two rows a line.")
@click.option("--labels", type=click.Path(path_type=Path), help="One label a row.")
@click.option("--ignore-column", multiple=True, metavar="NAME", help="No part of the embedding.")
@click.option(
    "--keep-column", multiple=True, metavar="NAME", help="Part of it, as it may seem not."
)
@click.option("--label-column", metavar="NAME", help="Column of EMBEDDINGS that holds the labels.")
@click.option("--header/--no-header", default=None, help="Of EMBEDDINGS, a CSV; else by its look.")
@click.option("--labels-header/--no-labels-header", default=None, help="Of the labels, a CSV.")
@click.option(
    "--unlabelled",
    type=click.Choice(["error", "alone"]),
    default="error",
    show_default=True,
    help="Rows without a label: refused, or each a class of its own.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the report.")
@click.option("--temperature", default=0.5, show_default=True, help="tau of the loss.")
@click.option("--batch-size", default=256, show_default=True, help="Pairs per batch of the loss.")
@click.option("--seed", default=0, show_default=True, help="Of every draw.")
def diagnose(
    embeddings: Path,
    pairs: Path | None,
    labels: Path | None,
    ignore_column: Sequence[str],
    keep_column: Sequence[str],
    label_column: str | None,
    header: bool | None,
    labels_header: bool | None,
    unlabelled: Literal["error", "alone"],
    out: Path | None,
    temperature: float,
    batch_size: int,
    seed: int,
) -> None:
    """Say whether the tail of EMBEDDINGS has an endpoint, and what WEINCE would do there.

    EMBEDDINGS is a .npy, .npz, .pt, .safetensors, .csv or .parquet file, one row per item. Writes
    report.html and report.json, by default to a folder beside it. A run that was cut goes on.

    Example: weince diagnose embeddings.npy --labels labels.csv --out report
    """
    from . import diagnostics

    if sum(1 for given in (pairs, labels, label_column) if given) > 1:
        raise click.UsageError("give one of --pairs, --labels and --label-column")
    folder = out or embeddings.with_name(f"{embeddings.stem}-diagnosis")
    advice = "the pairs that were looked at are kept; the same command goes on"
    with _stoppable(advice), errors.checking_input():
        found = diagnostics.diagnose(
            embeddings,
            pairs=pairs,
            labels=labels,
            reading=diagnostics.ReadSettings(
                ignore=tuple(ignore_column),
                keep=tuple(keep_column),
                label_column=label_column,
                header=header,
                labels_header=labels_header,
                unlabelled=unlabelled,
            ),
            temperature=temperature,
            batch_size=batch_size,
            store=folder / "bank",
            seed=seed,
            progress=True,
        )
    # Said before the report is written, so that a full disk does not take the answer along.
    click.secho(found.headline, bold=True)
    for line in (found.reason, *found.notes):
        click.echo(textwrap.fill(line, 96))
    click.echo(found.save(folder, name=embeddings.name))


@main.command()
@click.argument("study", required=False)
@click.option("--step-ms", type=float, help="Milliseconds of a step elsewhere; else measured here.")
def plan(study: str | None, step_ms: float | None) -> None:
    """Print runs, hours and disk of STUDY, and what of it failed; without STUDY, the studies.

    Example: weince plan cpu-fashion
    """
    from .studies import grid
    from .studies import plan as planning

    if study is None:
        for name, known in grid.STUDIES.items():
            click.echo(
                textwrap.fill(
                    known.question, 96, initial_indent=f"{name:<27}", subsequent_indent=" " * 27
                )
            )
        return
    seconds = None if step_ms is None else step_ms / 1000
    for line in planning.plan(grid.study(study), step_seconds=seconds):
        click.echo(textwrap.fill(line, 96, subsequent_indent=" " * 8))


# Options after COMMAND are its own.
@main.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, required=True, metavar="COMMAND STUDY [OPTIONS]")
def study(words: Sequence[str]) -> None:
    """Carry out a part of a study; `weince study COMMAND --help` tells more.

    COMMAND is work (make missing runs), run, collect, evidence, floors, register or choose. Exit
    status 75 after a stop: the same command goes on.

    Example: weince study work cpu-fashion --hours 2
    """
    from .studies import sweep

    sys.exit(sweep.main(words))


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
