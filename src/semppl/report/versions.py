"""What a run was made with, in words. No torch here."""

from collections.abc import Mapping
from typing import Any


def versions(environment: Mapping[str, Any]) -> str:
    """Of an environment.json; empty where it says nothing."""
    packages = environment.get("packages")
    named = {"Python": environment.get("python"), **(packages if isinstance(packages, Mapping) else {})}
    return ", ".join(f"{name} {version}" for name, version in named.items() if version)
