"""Where a command writes: refused before the work begins, not after it."""

from __future__ import annotations

from fairpc.data.atomic import check_writable
from fairpc.data.files import is_part
from fairpc.errors import OptionError


def check_output(output: str, *reads: str) -> None:
    """Refuse a file that cannot be written, or that is part of what the command reads."""
    for given in reads:
        if is_part(output, given):
            raise OptionError(
                f"-o {output} would write into what is read ({given}): give -o another file"
            )
    check_writable(output)
