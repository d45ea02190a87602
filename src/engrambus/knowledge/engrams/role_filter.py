"""The engrams and pointers that a role sees: the policy's rule applied to what pointers lead to (decision 50)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Address, ArtifactAddress, DiffAddress, Pointer, RepoAddress, parse_ref
from engrambus.evidence.pointers import TestAddress as CaseAddress
from engrambus.knowledge.engrams.values import Engram
from engrambus.policy import RoleVisibility

FilePaths = Callable[[ArtifactAddress | DiffAddress], Iterable[str] | None]
"""Returns the paths that an artifact's name may mean, or that a changed file had; None if that is not known."""


def _written_path(address: ArtifactAddress | DiffAddress) -> Iterable[str]:
    return (address.name if isinstance(address, ArtifactAddress) else address.path,)


class RoleFilter:
    """Decides what one role sees."""

    def __init__(self, rule: RoleVisibility, file_paths: FilePaths = _written_path) -> None:
        self.rule = rule
        self._file_paths = file_paths

    def sees(self, engram: Engram) -> bool:
        """True if an engram's kind, its scope and every path it points at are shown."""
        return (
            self.rule.sees_kind(engram.kind)
            and self.rule.sees_scope(engram.scope)
            and self.sees_pointers(engram.pointers)
        )

    def sees_pointers(self, pointers: Iterable[Pointer]) -> bool:
        """True if every path that these pointers lead to is shown."""
        return not self.rule.paths or all(self._sees_ref(pointer.ref) for pointer in pointers)

    def sees_address(self, address: Address) -> bool:
        """True if the path that an address leads to is shown; an address without a path is."""
        if not self.rule.paths:
            return True
        paths = self._paths(address)
        return paths is not None and all(map(self.rule.sees_path, paths))

    def _sees_ref(self, ref: str) -> bool:
        try:
            return self.sees_address(parse_ref(ref))
        except EngramBusError:  # a ref of an older version that is no longer valid leads nowhere
            return True

    def _paths(self, address: Address) -> Iterable[str] | None:
        match address:
            case RepoAddress():
                return (address.path,)
            case ArtifactAddress() | DiffAddress():
                return self._file_paths(address)
            case CaseAddress():
                return (address.node.partition("::")[0],)
            case _:
                return ()
