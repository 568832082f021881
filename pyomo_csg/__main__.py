"""Run the command line as python -m pyomo_csg."""

import sys

from pyomo_csg.cli import main

if __name__ == "__main__":
    sys.exit(main())
