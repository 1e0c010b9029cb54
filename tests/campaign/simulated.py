"""Programs on the simulated disk, under the real engine: kills, power cuts and errors in the midst of everything a log can do.

``python -m tests.campaign simulated NUMBER SEED FOLDER`` runs as many of them. ``python -m tests.campaign.simulated SEED`` runs one
again and, if it fails, says with which of its steps it still does.
"""

import asyncio
import logging
import sys
import traceback
from pathlib import Path

import msgspec

from tests.support.figures import Figures
from tests.support.simulation.simulated_programs import CHATS, Program, drawn
from tests.support.simulation.simulated_runs import Run

LENGTH = 40


def campaign(number: int, seed: int, folder: Path) -> Figures:
    """``tried``: the states of the disk after a kill or a power cut. Nothing is written to the folder."""
    figures = Figures()
    with asyncio.Runner() as runner:
        for one in range(seed, seed + number):
            error = runner.run(failure(drawn(one, LENGTH), figures))
            if error is not None:
                figures.violated(f"seed {one}", error)
                sys.stderr.write(f"{runner.run(explained(drawn(one, LENGTH)))}\n")
    return figures


async def failure(program: Program, figures: Figures) -> Exception | None:
    try:
        await Run(program, figures).all()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is a violation, and is reported)
        return error
    return None


async def smallest(program: Program) -> Program:
    """Leaves out steps, and what goes wrong in them, as long as it still fails."""
    for at in reversed(range(len(program.steps))):
        before, step, after = program.steps[:at], program.steps[at], program.steps[at + 1 :]
        healthy = msgspec.structs.replace(step, fault="", nth=0, forever=False, then="")
        for fewer in ((*before, *after), (*before, healthy, *after)):
            shorter = msgspec.structs.replace(program, steps=fewer)
            if fewer != program.steps and await failure(shorter, Figures()):
                program = shorter
                break
    return program


async def explained(program: Program) -> str:
    if not await failure(program, Figures()):
        return f"seed {program.seed}: nothing is wrong with it"
    program = await smallest(program)
    error = await failure(program, Figures())
    return "\n".join(
        (
            f"seed {program.seed}, segments of {program.segment_bytes} bytes, {program.short:.0%} of the writes short",
            *(msgspec.json.encode(step).decode().replace(CHATS[-1], "d…") for step in program.steps),
            *traceback.format_exception(error),
        )
    )


if __name__ == "__main__":
    logging.disable()
    sys.stdout.write(asyncio.run(explained(drawn(int(sys.argv[1]), LENGTH))) + "\n")
