"""Refuses a clone without symbolic links, whose wheel would be empty. All else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

if not Path("chatfold/eventlog").is_dir():
    raise SystemExit(
        "chatfold/eventlog is not a folder: this is a clone without symbolic links."
        " Clone again with 'git clone -c core.symlinks=true'."
    )
setup()
