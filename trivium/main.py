"""The console script `trivium`: lists the commands, runs one, completes their names."""

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.commands import command_parser, one_line_errors
from trivium.commands import PURPOSES, command_name, commands, run_command, summary

COMPLETIONS = {
    "bash": """\
_trivium() {
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "NAMES" -- "${COMP_WORDS[1]}"))
    fi
}
complete -o default -F _trivium trivium
""",
    "zsh": """\
#compdef trivium
_trivium() {
    if (( CURRENT == 2 )); then
        compadd -- NAMES
    else
        _files
    fi
}
compdef _trivium trivium
""",
}
EPILOG = """\
trivium COMMAND --help says what a command takes. A training of several processes goes through
accelerate: accelerate launch training/train_ras.py --config configs/ras_smollm2.yaml.
Completion of names: eval "$(trivium completion bash)", or zsh."""


@one_line_errors()
def main() -> None:
    """List all commands, or run the one that is named."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print_commands()
    elif arguments[0] == "completion":
        print(completion(_shell(arguments[1:])), end="")
    else:
        run_command(arguments[0], arguments[1:])


def print_commands() -> None:
    """Print the commands by what a person wants to do."""
    console = Console(soft_wrap=True)
    console.print(Text("usage: trivium COMMAND [ARGUMENT ...]\n"))
    for purpose, modules in PURPOSES.items():
        table = Table(box=None, show_header=False, pad_edge=False)
        for module in modules:
            table.add_row(Text(f"  {command_name(module)}", style="bold"), Text(summary(module)))
        console.print(Text(purpose, style="underline"))
        console.print(table)
        console.print()
    console.print(Text(EPILOG))


def completion(shell: str) -> str:
    """Return the script that completes the names of commands in `bash` or `zsh`."""
    return COMPLETIONS[shell].replace("NAMES", " ".join([*commands(), "completion"]))


def _shell(arguments: list[str]) -> str:
    parser = command_parser(
        "Print a script that completes names of commands.", "trivium completion"
    )
    parser.add_argument("shell", choices=sorted(COMPLETIONS))
    chosen: str = parser.parse_args(arguments).shell
    return chosen


if __name__ == "__main__":
    main()
