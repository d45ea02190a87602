"""The conformance suite of the knowledge store: everything a back end must do, written once. To run it on one:

    class TestMine(StoreConformance):
        @pytest.fixture
        def harness(self, tmp_path): ...

Each test takes a `harness` with a new project; nothing here imports pytest.
"""

from engrambus.testing.conformance.adoption import AdoptionConformance
from engrambus.testing.conformance.agents import AgentConformance
from engrambus.testing.conformance.approvals import ApprovalConformance
from engrambus.testing.conformance.briefs import BriefConformance
from engrambus.testing.conformance.captures import CaptureConformance
from engrambus.testing.conformance.clocks import ClockConformance
from engrambus.testing.conformance.contradictions import ContradictionConformance
from engrambus.testing.conformance.cortex import CortexConformance
from engrambus.testing.conformance.denials import DenialConformance
from engrambus.testing.conformance.duplicates import DuplicateConformance
from engrambus.testing.conformance.engram_values import EngramValueConformance
from engrambus.testing.conformance.feed import FeedConformance
from engrambus.testing.conformance.figures import FigureConformance
from engrambus.testing.conformance.gate import GateConformance
from engrambus.testing.conformance.grants import GrantConformance
from engrambus.testing.conformance.journal import JournalConformance
from engrambus.testing.conformance.key_formats import KeyFormatConformance
from engrambus.testing.conformance.learning import LearningConformance
from engrambus.testing.conformance.lifecycle import LifecycleConformance
from engrambus.testing.conformance.mail import MailConformance
from engrambus.testing.conformance.messages import MessageConformance
from engrambus.testing.conformance.names import NameConformance
from engrambus.testing.conformance.one_memory import OneMemoryConformance
from engrambus.testing.conformance.passed_on_grants import PassedOnGrantConformance
from engrambus.testing.conformance.puts import PutConformance
from engrambus.testing.conformance.query_filters import QueryFilterConformance
from engrambus.testing.conformance.reads import ReadConformance
from engrambus.testing.conformance.recall import RecallConformance
from engrambus.testing.conformance.replacing import ReplacingConformance
from engrambus.testing.conformance.reservations import ReservationConformance
from engrambus.testing.conformance.secrets import SecretConformance
from engrambus.testing.conformance.sequences import SequenceConformance
from engrambus.testing.conformance.sessions import SessionConformance
from engrambus.testing.conformance.sharing import SharingConformance
from engrambus.testing.conformance.snapshots import SnapshotConformance
from engrambus.testing.conformance.tokens import TokenConformance
from engrambus.testing.conformance.turns import TurnConformance
from engrambus.testing.conformance.unasked import UnaskedConformance
from engrambus.testing.conformance.uses import UseConformance

__all__ = [
    "AdoptionConformance",
    "AgentConformance",
    "ApprovalConformance",
    "BriefConformance",
    "CaptureConformance",
    "ClockConformance",
    "ContradictionConformance",
    "CortexConformance",
    "DenialConformance",
    "DuplicateConformance",
    "EngramValueConformance",
    "FeedConformance",
    "FigureConformance",
    "GateConformance",
    "GrantConformance",
    "JournalConformance",
    "KeyFormatConformance",
    "LearningConformance",
    "LifecycleConformance",
    "MailConformance",
    "MessageConformance",
    "NameConformance",
    "OneMemoryConformance",
    "PassedOnGrantConformance",
    "PutConformance",
    "QueryFilterConformance",
    "ReadConformance",
    "RecallConformance",
    "ReplacingConformance",
    "ReservationConformance",
    "SecretConformance",
    "SequenceConformance",
    "SessionConformance",
    "SharingConformance",
    "SnapshotConformance",
    "StoreConformance",
    "TokenConformance",
    "TurnConformance",
    "UnaskedConformance",
    "UseConformance",
]


class StoreConformance(
    AdoptionConformance,
    ClockConformance,
    CaptureConformance,
    UseConformance,
    EngramValueConformance,
    UnaskedConformance,
    QueryFilterConformance,
    ReadConformance,
    RecallConformance,
    KeyFormatConformance,
    LifecycleConformance,
    ReplacingConformance,
    LearningConformance,
    ContradictionConformance,
    ApprovalConformance,
    DuplicateConformance,
    MessageConformance,
    MailConformance,
    GateConformance,
    GrantConformance,
    DenialConformance,
    OneMemoryConformance,
    PassedOnGrantConformance,
    SequenceConformance,
    SessionConformance,
    TurnConformance,
    TokenConformance,
    PutConformance,
    SecretConformance,
    ReservationConformance,
    BriefConformance,
    FeedConformance,
    FigureConformance,
    AgentConformance,
    NameConformance,
    CortexConformance,
    SharingConformance,
    SnapshotConformance,
    JournalConformance,
):
    """Everything a knowledge store must do, from recall to the journal as the only truth."""
