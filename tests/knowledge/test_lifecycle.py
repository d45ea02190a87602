"""The rules of confirming, promoting, pinning, forgetting and delivering engrams, without a store."""  # EB-21

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engrambus.backends.facts import decode_facts
from engrambus.errors import (
    EngramBusError,
    EngramNotFound,
    EvidenceUnresolved,
    IdTaken,
    NotYourDescendant,
    RoleForbidden,
    ScopeForbidden,
)
from engrambus.knowledge.engrams import (
    Engram,
    EngramDelivered,
    EngramForgotten,
    EngramPinned,
    EngramPromoted,
    EngramReceived,
    EngramUnpinned,
    PromotionView,
    Renewal,
    StoredEngram,
    as_promoted,
    confirm,
    forget,
    mark_delivered,
    promote,
    receive,
    set_pinned,
    with_gain,
)
from engrambus.policy import DEFAULT_POLICY, Caller, Policy, Scope
from tests.knowledge.plain_view import (
    DAY_US,
    ENFORCED,
    NOW_US,
    PlainView,
    caller,
    no_randomness,
    stored_engram,
    view_of,
)

SPACES = ("r1", "p")
OPEN = Policy(scopes=("run", "project", "org"))


def promote_in(
    view: PromotionView, stored: StoredEngram, scope: Scope, by: Caller, policy: Policy, repository: str | None = None
) -> tuple[list[Any], Engram]:
    """Promote an engram with every limit enforced."""
    return promote(
        view,
        SPACES,
        stored.engram.id,
        scope,
        caller=by,
        policy=policy,
        limits=ENFORCED,
        randomness=no_randomness,
        repository=repository,
    )


def test_each_root_of_the_hierarchy_has_one_vote() -> None:
    stored = stored_engram()
    view = PlainView(stored)
    root = caller("lead").full_name
    view.roots[stored.ordinal] = {root, caller("bob").full_name}
    (fact,), answer = confirm(view, SPACES, stored.engram.id, caller("ada"))  # type: ignore[arg-type]
    assert (fact.root, answer.votes) == (root, 2)


def test_a_confirmation_never_shortens_a_lifetime() -> None:
    stored = msgspec.structs.replace(stored_engram(ttl="P1D"), expires_at=NOW_US + 30 * DAY_US)
    (fact,), _ = confirm(view_of(stored), SPACES, stored.engram.id, caller())
    assert fact.expires_at == NOW_US + 30 * DAY_US


def test_an_unknown_engram_cannot_be_changed() -> None:
    for rule in (confirm, forget):
        with pytest.raises(EngramNotFound):
            rule(view_of(), SPACES, "01JH000000000000000000000A", caller("admin"))


def test_an_engram_is_forgotten_in_the_space_that_has_it() -> None:
    stored = stored_engram(scope="run")
    facts, answer = forget(view_of(stored), SPACES, stored.engram.id, caller("admin"))
    assert facts == [EngramForgotten(id=stored.engram.id, space="r1", by=caller("admin").full_name)]
    assert answer.forgotten


class TestPromotion:
    def test_a_parent_promotes_an_engram_of_its_descendant(self) -> None:
        stored = stored_engram(by="ada", scope="run")
        facts, engram = promote_in(view_of(stored), stored, "project", caller("lead"), DEFAULT_POLICY)
        assert facts == [EngramPromoted(id=stored.engram.id, space="r1", scope="project", by=caller("lead").full_name)]
        assert engram.scope == "project"

    @pytest.mark.parametrize(("name", "refusal"), [("ada", RoleForbidden), ("bob", NotYourDescendant)])
    def test_neither_its_author_nor_another_agent_may(self, name: str, refusal: type[EngramBusError]) -> None:
        stored = stored_engram(by="ada", scope="run")
        with pytest.raises(refusal):
            promote_in(view_of(stored), stored, "project", caller(name), DEFAULT_POLICY)

    def test_a_scope_is_widened_one_step_at_a_time(self) -> None:
        stored = stored_engram(scope="run")
        with pytest.raises(ScopeForbidden) as caught:
            promote_in(view_of(stored), stored, "org", caller("admin"), OPEN)
        assert caught.value.limit == "project"

    def test_promoting_to_its_own_scope_changes_nothing(self) -> None:
        stored = stored_engram()
        facts, engram = promote_in(view_of(stored), stored, "project", caller("admin"), OPEN)
        assert (facts, engram) == ([], stored.engram)

    def test_a_scope_can_require_confidence(self) -> None:
        stored = stored_engram(scope="run", confidence=0.1)
        policy = Policy(promotion_floor={"project": 0.5})
        with pytest.raises(ScopeForbidden) as caught:
            promote_in(view_of(stored), stored, "project", caller("admin"), policy)
        assert (caught.value.field, caught.value.limit, caught.value.used) == ("confidence", 0.5, 0.1)

    def test_an_id_that_the_wider_space_has_is_refused(self) -> None:
        narrow = stored_engram(scope="run")
        wide = msgspec.structs.replace(stored_engram(), ordinal=2)
        with pytest.raises(IdTaken):
            promote_in(view_of(narrow, wide), narrow, "project", caller("admin"), DEFAULT_POLICY)


def test_an_engram_without_a_resolved_pointer_is_neither_pinned_nor_promoted() -> None:  # EB-04
    stored = unresolved(stored_engram(scope="run"))
    admin = caller("admin")
    with pytest.raises(EvidenceUnresolved) as refused:
        set_pinned(view_of(stored), SPACES, stored.engram.id, admin, pinned=True)
    assert refused.value.used == stored.engram.pointers[0].ref
    with pytest.raises(EvidenceUnresolved):
        promote_in(view_of(stored), stored, "project", admin, DEFAULT_POLICY)


def test_a_confirmation_records_the_pointers_that_were_resolved() -> None:  # EB-04
    resolved = stored_engram()
    stored = unresolved(resolved)
    view = view_of(stored)
    (fact,), answer = confirm(view, SPACES, stored.engram.id, caller(), Renewal(resolved=resolved.engram.pointers))
    assert (fact.resolved, answer.resolved) == (resolved.engram.pointers, [resolved.engram.pointers[0].ref])
    assert with_gain(stored.engram, fact) == resolved.engram
    (fact,), answer = confirm(view, SPACES, stored.engram.id, caller())
    assert (fact.resolved, answer.unresolved) == ((), [resolved.engram.pointers[0].ref])
    (fact,), _ = confirm(
        view_of(resolved), SPACES, stored.engram.id, caller(), Renewal(resolved=resolved.engram.pointers)
    )
    assert fact.resolved == ()


def test_beyond_the_project_pointers_name_their_repository() -> None:  # EB-04
    stored = stored_engram()
    facts, engram = promote_in(view_of(stored), stored, "org", caller("admin"), OPEN, repository="billing")
    assert engram.pointers[0].ref == stored.engram.pointers[0].ref.replace("repo:", "repo:billing//")
    assert engram.pointers[0].digest == stored.engram.pointers[0].digest
    promoted = facts[-1]
    assert isinstance(promoted, EngramPromoted)
    assert as_promoted(stored.engram, promoted) == engram


def unresolved(stored: StoredEngram) -> StoredEngram:
    """Return an engram as it is stored while what it points at is not here."""
    pointers = tuple(msgspec.structs.replace(pointer, digest=None) for pointer in stored.engram.pointers)
    return msgspec.structs.replace(stored, engram=msgspec.structs.replace(stored.engram, pointers=pointers))


def test_pinning_twice_is_one_fact() -> None:
    stored = stored_engram()
    view = PlainView(stored)
    admin = caller("admin")
    facts, answer = set_pinned(view, SPACES, stored.engram.id, admin, pinned=True)  # type: ignore[arg-type]
    assert (facts, answer.pinned) == ([EngramPinned(id=stored.engram.id, space="p", by=admin.full_name)], True)
    view.pins.append(stored.ordinal)
    assert set_pinned(view, SPACES, stored.engram.id, admin, pinned=True)[0] == []  # type: ignore[arg-type]
    facts, answer = set_pinned(view, SPACES, stored.engram.id, admin, pinned=False)  # type: ignore[arg-type]
    assert (facts, answer.pinned) == ([EngramUnpinned(id=stored.engram.id, space="p", by=admin.full_name)], False)


def test_delivery_is_idempotent() -> None:
    waiting = stored_engram(scope="org")
    (received,), _ = receive(view_of(), waiting, origin="another project")
    assert isinstance(received, EngramReceived)
    assert (received.engram, received.origin) == (waiting.engram, "another project")
    arrived = msgspec.structs.replace(waiting, space="p")
    assert receive(view_of(arrived), waiting, origin="another project")[0] == []
    assert mark_delivered(view_of(waiting), waiting)[0] == [EngramDelivered(id=waiting.engram.id)]
    assert mark_delivered(view_of(), waiting)[0] == []


def test_a_promotion_journalled_by_an_earlier_version_is_read() -> None:  # EB-37
    line = b'[{"fact":"engram.promoted","id":"01JH000000000000000000000A","space":"p","scope":"org","by":"run/lead"}]'
    (fact,) = decode_facts(line)
    assert isinstance(fact, EngramPromoted)
    assert (fact.scope, fact.approved_by) == ("org", None)
