"""What every back end must do, written once. A subclass runs it on one back end:

    class TestMine(Conformance):
        @pytest.fixture
        def harness(self, tmp_path): ...

Each test takes a `harness` with a new project; nothing here imports pytest.
"""

from engrambus.testing.conformance.boundaries import Boundaries
from engrambus.testing.conformance.briefing import Briefing
from engrambus.testing.conformance.cortex import Cortex
from engrambus.testing.conformance.feeding import Feeding
from engrambus.testing.conformance.figuring import Figuring
from engrambus.testing.conformance.granting import Granting
from engrambus.testing.conformance.law import Law
from engrambus.testing.conformance.life import Life
from engrambus.testing.conformance.people import People
from engrambus.testing.conformance.recall import Recall
from engrambus.testing.conformance.repetition import Repetition
from engrambus.testing.conformance.secrecy import Secrecy
from engrambus.testing.conformance.truth import Truth

__all__ = [
    "Boundaries",
    "Briefing",
    "Conformance",
    "Cortex",
    "Feeding",
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


class Conformance(
    Recall, Life, Repetition, Law, Granting, Boundaries, Secrecy, Briefing, Feeding, Figuring, People, Cortex, Truth
):
    """Recall, the life of an engram, saying it twice, messages and turns, grants, what hooks report, secrets, the
    brief, the feed, the figures, who may do what, what is remembered, and the journal as the only truth."""
