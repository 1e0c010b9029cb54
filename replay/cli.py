"""The ``chatfold`` command.

Each verb is a function in ``replay.verbs``, imported when it is called: ``chatfold ls`` does not wait for what only ``step``
needs. What goes wrong is told in one line on stderr, never in a traceback. The exit code says what it was:

    0    done; nothing differs        4    a log is damaged
    1    a difference, a divergence,  5    written by a newer chatfold
         nothing found                6    an extra is not installed
    2    it was asked wrongly         7    anything else went wrong
    3    no such chat, point, place   130  interrupted
"""

import atexit
import gc
import os
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

VERBS = {
    "ls": ("chats", "The chats, newest first"),
    "log": ("history", "What happened in a chat, a line each"),
    "show": ("history", "One event: what it says, what belongs to it, what it changed"),
    "context": ("context", "What the model sees, and what is archived"),
    "messages": ("context", "Exactly what the model is sent, or was sent"),
    "diff": ("ask", "What changed between two points"),
    "why": ("ask", "When a text entered the context, and when and why it left"),
    "tree": ("chats", "Which chat was forked from which"),
    "search": ("chats", "Words in all chats, or in one"),
    "stats": ("history", "Tokens, turns, tools, and the size of the context over time"),
    "fork": ("change", "A new chat from any point of another"),
    "redact": ("change", "Erase what entries say, for good"),
    "compact": ("change", "Put older messages behind a summary"),
    "delete": ("change", "Delete chats, for good"),
    "replay": (
        "verify",
        "Fold again and compare every fingerprint, or run an agent's code against the recording",
    ),
    "rerun": ("verify", "Run one turn again for real, in a fork"),
    "step": ("step", "Step through a chat in the terminal"),
    "view": ("view", "The debugger in a browser"),
    "export": ("files", "A chat as a file: lossless, Markdown, HTML, or in a provider's shape"),
    "import": ("imports", "Chats of other tools, or exported ones, into a store"),
    "watch": ("watch", "Keep a store up to date with what other tools write"),
    "mcp": ("mcp", "Serve a store to agents, as an MCP server"),
    "copy": ("copy", "Chats from one store into another: folders, databases"),
    "check": ("check", "Check that every byte is as it was written, and repair"),
    "salvage": ("check", "Copy what still verifies out of a damaged chat"),
    "demo": ("demo", "Record a small chat to look at"),
}


class Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        gc.disable()  # nothing of what is imported is garbage, and looking for it takes a twentieth of the start
        module = import_module(f"chatfold.replay.verbs.{VERBS[cmd_name][0]}")
        gc.enable()
        command: click.Command = getattr(module, "import_" if cmd_name == "import" else cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing every verb for its help."""
        verbs = [
            CompletionItem(name, help=said)
            for name, (_, said) in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, said) for name, (_, said) in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 (only after a typing error)

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " 'chatfold --help' lists the verbs."
            ctx.fail(f"There is no verb {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.command(
    "chatfold",
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.option(
    "--store",
    metavar="PLACE",
    help="The store: a folder, or postgresql://user@host/database?schema=name. Default: $CHATFOLD_STORE, or the one in this folder.",
)
@click.version_option(package_name="chatfold", prog_name="chatfold")
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Look at chats that agents have recorded: what happened, what the model saw, why it forgot.

    \b
    chatfold demo && export CHATFOLD_STORE=chatfold-demo     something to look at
    chatfold ls                                              the chats there are
    chatfold log last                                        what happened in the newest
    chatfold messages last --for-call 1                      exactly what was sent, and proof of it
    chatfold why last "newlines"                             where a text went
    chatfold step last                                       event by event

    A chat is named by its key, the beginning of it, or 'last'; CHAT@POINT is the chat as it was: CHAT@12 after entry 12,
    CHAT@t3 after turn 3, CHAT@c1^ before compaction 1, CHAT@head-5, CHAT@-2h, CHAT@a-checkpoint; CHAT@A..B is a range.
    """
    ctx.obj = store
    if ctx.invoked_subcommand is None:
        if sys.stdout.isatty():
            command = cli.get_command(ctx, "ls")
            assert command is not None
            ctx.invoke(command)
            click.echo("\nchatfold log last · chatfold step last · chatfold --help", err=True)
        else:
            click.echo(ctx.get_help())


def main(args: list[str] | None = None) -> Any:
    """The entry point: everything that is expected to go wrong ends in one line and an exit code."""
    _safe_streams()
    atexit.register(
        gc.freeze
    )  # the interpreter looks for garbage as it ends: a fifth of the time of a short verb
    try:
        code = cli.main(args, prog_name="chatfold", standalone_mode=False) or 0
        sys.stdout.flush()  # here a closed pipe can still be met quietly
        sys.exit(code)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        _close_quietly()
        sys.exit(1)


def _safe_streams() -> None:
    """Half a character does not end us, nor does a stream that was closed before we began."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8", closefd=False))
        else:
            stream.reconfigure(errors="backslashreplace")


def _close_quietly() -> None:
    """The reader of our output has closed the pipe: drop what is left in the buffer without a complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
