"""Makes sluice/v1 from the protos before the package is put together; everything else is in pyproject.toml."""

import os
import subprocess
import sys

from setuptools import setup

subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "generate.py")], check=True)
setup()
