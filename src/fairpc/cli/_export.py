"""``fairpc export``: a model as a file that scores without fairpc."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote

from fairpc.cli._screen import Screen, print_json, say
from fairpc.cli._tables import check_output, loaded
from fairpc.core import OptionError, counted
from fairpc.exporting import TABLE, check_suffix, export


def run(model_file: str, output: str, table: str | None, screen: Screen) -> None:
    """Write a model in the language that the suffix of the output names."""
    suffix = check_suffix(output)
    if table is not None and suffix != ".sql":
        raise OptionError(f"--table and -o {output}: only a query names a table, leave one out")
    check_output(output, model_file)
    model = loaded(model_file, then="-o FILE")
    written = export(model, output, table=TABLE if table is None else table)
    if screen.json:
        print_json({"model_file": model_file, **asdict(written)})
    elif screen.talks:
        say(
            f"{output} gives P(Df = class | row) for {', '.join(written.classes)}, from "
            f"{counted(len(written.inputs), 'column')}: {', '.join(written.inputs)}."
        )
        if written.format == "onnx":
            for name, example in written.written.items():
                say(f"Give {name} as numbers: the graph does not read text such as {example!r}.")
        say(_next(written.format, output, TABLE if table is None else table))


def _next(kind: str, output: str, table: str) -> str:
    """How the file is used."""
    if kind == "sql":
        first = f"put your rows into the table {table}"
        if table.isidentifier():
            first = f"sqlite3 -csv my.db '.import rows.csv {table}'"
        return f"Next: {first}, then sqlite3 -header -csv my.db < {quote(output)}"
    if kind == "onnx":
        return f"Next, in Python: onnxruntime.InferenceSession({output!r})"
    return "Next, in Python: import it, and call predict_proba with a dict"
