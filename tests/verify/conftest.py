"""Commands as a user gives them."""

from tests.cli.commands import borealis  # noqa: F401  # a fixture
