"""Arguments and options that several commands have."""

from typing import Annotated

import typer

JobId = Annotated[str, typer.Argument(metavar="ID", help="Id of the job.", show_default=False)]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Next = Annotated[
    str | None,
    typer.Option("--next", metavar="CURSOR", help="Continue at the cursor of the previous page."),
]

Reason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Reason, for the audit trail.", show_default=False
    ),
]

IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", help="Key, such as a UUID: repeated requests within a day make one job."
    ),
]

GiveUp = Annotated[
    float,
    typer.Option(
        "--give-up-s",
        metavar="SECONDS",
        min=0,
        help="Stop following after this long without an answer of the API.",
    ),
]
