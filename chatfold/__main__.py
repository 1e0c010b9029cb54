"""``python -m chatfold`` is the command ``chatfold``."""

from chatfold.replay.cli import main

if __name__ == "__main__":
    main()
