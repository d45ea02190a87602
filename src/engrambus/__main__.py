"""`python -m engrambus`: the command line, where its script is not on the PATH."""

from engrambus.edges.cli import main

if __name__ == "__main__":
    main()
