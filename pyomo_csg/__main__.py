"""python -m pyomo_csg is pyomo-csg."""

import sys

from pyomo_csg.cli import main

if __name__ == "__main__":
    sys.exit(main())
