"""What every back end must do, written once. A subclass runs it on one back end:

    class TestMine(Conformance):
        @pytest.fixture
        def harness(self, tmp_path): ...

Each test takes a `harness` with a new project; nothing here imports pytest.
"""

from stigmergy.testing.conformance.briefing import Briefing
from stigmergy.testing.conformance.figuring import Figuring
from stigmergy.testing.conformance.granting import Granting
from stigmergy.testing.conformance.law import Law
from stigmergy.testing.conformance.life import Life
from stigmergy.testing.conformance.people import People
from stigmergy.testing.conformance.recall import Recall
from stigmergy.testing.conformance.repetition import Repetition
from stigmergy.testing.conformance.secrecy import Secrecy
from stigmergy.testing.conformance.truth import Truth

__all__ = [
    "Briefing",
    "Conformance",
    "Figuring",
    "Granting",
    "Law",
    "Life",
    "People",
    "Recall",
    "Repetition",
    "Secrecy",
    "Truth",
]


class Conformance(Recall, Life, Repetition, Law, Granting, Secrecy, Briefing, Figuring, People, Truth):
    """Recall, the life of an engram, saying it twice, messages and turns, grants, secrets, the brief, the figures,
    who may do what, and the journal as the only truth."""
