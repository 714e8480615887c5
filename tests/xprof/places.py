"""Where the tests of this folder find the project and what was built of it."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("XPROF_TEST_BUILD_DIR", os.path.join(ROOT, "build"))
TBPROF = os.path.join(BUILD, "bin", "tbprof")
