"""``python -m tests.campaign PART NUMBER SEED FOLDER`` runs a part of the campaign and prints its figures as JSON."""

import logging
import os
import sys
from importlib import import_module
from pathlib import Path

import msgspec


def main() -> None:
    part, number, seed, folder = sys.argv[1:]
    said = os.dup(1)
    os.dup2(2, 1)  # what the engine and its children print is no figure
    logging.disable()  # that a torn tail was cut off is what this is about
    figures = import_module(f"{__package__}.{part}").campaign(int(number), int(seed), Path(folder))
    os.write(said, msgspec.json.encode(figures))


if __name__ == "__main__":
    main()
