"""What a follower says while the API does not answer."""

from collections.abc import Callable

from joblane.client.cli.text import terminal
from joblane.client.errors import JoblaneError
from joblane.client.follow import Note, Runtime


def report_api_away(
    give_up_s: float, what: str = "job", clear: Callable[[], None] = lambda: None
) -> Runtime:
    """Say when the API does not answer and when it does again; `clear` is called before."""

    def report(note: Note, error: JoblaneError | None) -> None:
        clear()
        away = f"{error}; retrying for {give_up_s:.0f} s; the {what} is not affected"
        terminal.note(away if note is Note.AWAY else note.value)

    return Runtime(on_note=report)
