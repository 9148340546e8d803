"""The fixtures of integrations/stand_in.py."""

pytest_plugins = ("stand_in",)
