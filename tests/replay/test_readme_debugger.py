"""What the README shows of the debugger is what it prints."""

import asyncio
import re
from pathlib import Path

from chatfold.agent import Policy, Store, assistant
from chatfold.agent.summary import Material
from tests.support.debugger.commanded import run

README = (Path(__file__).parents[2] / "README.md").read_text()


async def summarise(material: Material) -> str:
    return "Fixing the parser test. vendor/ stays as it is. parser.py and lexer.py were read: the lexer drops newlines."


async def talk(folder: Path) -> None:
    async with Store(folder) as store:
        chat = await store.chat("parser-fix")
        await chat.user("You must not touch vendor/. The parser test fails.")
        for name in ("parser.py", "lexer.py", "test_parser.py", "grammar.txt"):
            call = await chat.tool_call("read_file", {"path": name})
            await chat.record(
                call.result(f"# {name}\n" + "some line of code\n" * 40), assistant(f"I read {name}.")
            )
            await chat.user("Go on.")
        await chat.assistant("The lexer drops newlines.")
        await chat.compact(Policy(keep=4), summarise=summarise)


def test_the_readme_shows_what_the_debugger_prints(tmp_path: Path) -> None:
    asyncio.run(talk(tmp_path))
    [shown] = re.findall(r"^```text\n(\$ chatfold diff.*?)^```", README, re.DOTALL | re.MULTILINE)
    for block in re.split(r"^\$ ", shown, flags=re.MULTILINE)[1:]:
        command, _, output = block.partition("\n")
        words = re.findall(r'"[^"]*"|\S+', command)[1:]
        done = run(*(word.strip('"') for word in words), store=tmp_path)
        assert (done.stdout.strip(), done.stderr) == (output.strip(), ""), command
