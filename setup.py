"""Which folders become which packages; everything else is said in pyproject.toml."""

from setuptools import find_packages, setup

library = find_packages(include=["streamgen", "streamgen.*"])
programs = ["streamgen_apps", *(f"streamgen_apps.{name}" for name in find_packages("apps"))]

setup(
    packages=[*library, "streamgen._weights", *programs],
    package_dir={"streamgen._weights": "weights", "streamgen_apps": "apps"},
)
