"""python -m hocket.torch.native: builds the native operations for this torch, and prints the path of the module."""
import sys

from . import build


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    try:
        print(build.path_of_built(True))
    except build.CannotBuild as error:
        try:
            with open(str(error).partition(", as ")[2].removesuffix(" says")) as file:
                sys.stderr.write(file.read())
        except OSError:
            pass
        sys.exit(f"hocket: {error}")


main()
