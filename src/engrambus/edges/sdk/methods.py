"""Every operation as a typed method. Generated from the `@operation` declarations by tools/generate.py."""

# fmt: off
# ruff: noqa: A002, E501, I001, RUF100
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engrambus.evidence.pointers import DerefAnswer, Pointer
    from engrambus.knowledge.cortex import Contribution, SharedContextSnapshot, SnapshotScope
    from engrambus.knowledge.engrams import ClaimsConfirmed, ConfirmAnswer, Engram, ForgetAnswer, PinAnswer
    from engrambus.knowledge.gate import GateOverride
    from engrambus.knowledge.memory import Budget, ContextPackage, Scoring, TrustFilter
    from engrambus.operations.admin import PolicyAnswer, PolicyShown
    from engrambus.operations.answers import AnswerTaken
    from engrambus.operations.artifacts import ArtifactAnswer
    from engrambus.operations.batches import BatchAnswer, BatchesAnswer, FoldAnswer, SpawnAnswer
    from engrambus.operations.brief import BriefAnswer, BriefsAnswer
    from engrambus.operations.catalog import CatalogAnswer, YoolAnswer
    from engrambus.operations.contradictions import ContradictionRow, ContradictionsAnswer
    from engrambus.operations.cortex import EpisodeAnswer, EvidenceInput
    from engrambus.operations.deref_requests import DenyAnswer, RequestAnswer, RequestsAnswer
    from engrambus.operations.engram_feed import FeedAnswer
    from engrambus.operations.engram_queries import QueryAnswer, ShownEngram
    from engrambus.operations.engrams import PutAnswer, PutEngram
    from engrambus.operations.evidence_check import EvidenceReport
    from engrambus.operations.gate import GateAnswer, GateOverrides
    from engrambus.operations.gc import GarbageAnswer
    from engrambus.operations.grants import GrantAnswer, GrantsAnswer, RevokeAnswer
    from engrambus.operations.inbox import InboxAnswer, MailAnswer
    from engrambus.operations.limits import LimitRow, Limits
    from engrambus.operations.long_texts import PutTextAnswer
    from engrambus.operations.messages import BroadcastAnswer, MessageAnswer, ValidateAnswer
    from engrambus.operations.people import PeopleAnswer, PersonAnswer, RemovedPerson, WhoamiAnswer
    from engrambus.operations.pointers import AnchorAnswer, LinkAnswer, ValidateDerefAnswer
    from engrambus.operations.promotions import PromotionRow, PromotionsAnswer
    from engrambus.operations.recall import RecallAnswer
    from engrambus.operations.receipt_list import ReceiptsAnswer
    from engrambus.operations.receipts import ReceiptAnswer, ReceiptCheck, TestReportAnswer
    from engrambus.operations.reservations import CheckAnswer, ReleaseAnswer, ReservationRow, ReservationsAnswer
    from engrambus.operations.review import ContributionsAnswer
    from engrambus.operations.runs import AgentsAnswer, RemovedAnswer, RunAnswer, RunsAnswer
    from engrambus.operations.schedules import AddedSchedule, RemovedSchedule, ScheduleRow, SchedulesAnswer, ShownSchedule
    from engrambus.operations.stats import StatsAnswer
    from engrambus.operations.task_changes import ReleasedTasks
    from engrambus.operations.task_rows import ClaimedTask, TaskAnswer, TaskRow
    from engrambus.operations.tasks import FinishedTask, TasksAnswer
    from engrambus.operations.tokens import AgentAnswer, RevokedAnswer, TokensAnswer
    from engrambus.operations.tuples import CancelAnswer, DeadLetters, DispatchAnswer, TupleAnswer, TupleStatus
    from engrambus.operations.turns import TeamBudget, TurnAnswer
    from engrambus.operations.verification import VerifyAnswer
    from engrambus.operations.why import WhyAnswer
    from engrambus.operations.work_board import BoardAnswer, WorkRunsAnswer


class Methods(ABC):
    """One method for each operation."""

    @abstractmethod
    def _do(self, name: str, fields: dict[str, Any], idempotency_key: str | None = None) -> Any:
        """Call the operation of that name."""

    def apply_policy(
        self,
        policy: dict[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> PolicyAnswer:
        """Apply the project's policy file, .catalog/policy.yaml: its limits and permissions.

        Args:
            policy: The content of .catalog/policy.yaml
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PolicyAnswer", self._do("apply_policy", {"policy": policy}, idempotency_key))

    def show_policy(
        self,
        *,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] | None = None,
    ) -> PolicyShown:
        """Show every setting of the policy in force, where it was set, and how each limit applies.

        Args:
            role: Show how the limits apply to this role only
        """
        return cast("PolicyShown", self._do("show_policy", {"role": role}))

    def take_answer(
        self,
        text: str,
        *,
        handed_over: bool = False,
        sent_back: bool = False,
        budget_token: str | None = None,
        idempotency_key: str | None = None,
    ) -> AnswerTaken:
        """Submit an agent's final answer, a message or plain prose, to its parent.

        Args:
            text: The answer: a message (YAML or JSON), or plain prose
            handed_over: The parent gets the whole text from its client: it must fit the budget, and is not announced
            sent_back: It was sent back once: prose is kept, whatever its size
            budget_token: Budget token of a grant that allows inline code
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("AnswerTaken", self._do("take_answer", {"text": text, "handed_over": handed_over, "sent_back": sent_back, "budget_token": budget_token}, idempotency_key))

    def store_artifact(
        self,
        text: str,
        *,
        name: str = "block.txt",
        idempotency_key: str | None = None,
    ) -> ArtifactAnswer:
        """Store new code to point at.

        Args:
            text: New code or other text, to point at
            name: A file name for it
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ArtifactAnswer", self._do("store_artifact", {"text": text, "name": name}, idempotency_key))

    def spawn_batch(
        self,
        lane: str,
        depth: int,
        branching: int,
        *,
        payload: list[dict[str, Any]] | tuple[dict[str, Any], ...] = (),
        compression_threshold: int | None = None,
        map_pos: dict[str, Any] | UnsetType = UNSET,
        agent_terms: dict[str, Any] | UnsetType = UNSET,
        src_ptr: list[str] | tuple[str, ...] | UnsetType = UNSET,
        parent_id: str | UnsetType | None = UNSET,
        flags: dict[str, Any] | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        schema: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> SpawnAnswer:
        """Spawn a batch: a tree of agents of which only what workers reach becomes tasks.

        Args:
            lane: Queue its leaves wait in
            depth: Levels below the root
            branching: Children of each node above the leaves
            payload: Steps of each leaf; ${agent.path} and ${agent.number} in arguments are filled in
            compression_threshold: Leaves from which it is put folded; the project's setting by default
            map_pos: Its position in the project
            agent_terms: budget_usd, budget_tokens of the whole batch; deadline_iso, max_retries of each leaf
            src_ptr: Pointers to its sources
            parent_id: Parent tuple; shares its spending
            flags: no_cache: use no cached result
            priority: Higher is claimed first; 0 by default
            schema: yool-tuple/v1 or v2
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("SpawnAnswer", self._do("spawn_batch", {"lane": lane, "depth": depth, "branching": branching, "payload": payload, "compression_threshold": compression_threshold, "map_pos": map_pos, "agent_terms": agent_terms, "src_ptr": src_ptr, "parent_id": parent_id, "flags": flags, "priority": priority, "schema": schema}, idempotency_key))

    def show_batch(
        self,
        id: str,
    ) -> BatchAnswer:
        """Show a batch: how many agents of each level are folded, waiting, running or ended, and their cost.

        Args:
            id: The batch's id, or its first digits
        """
        return cast("BatchAnswer", self._do("show_batch", {"id": id}))

    def list_batches(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> BatchesAnswer:
        """List batches, newest first, with how many of their agents are not materialised.

        Args:
            limit: Maximum number of batches
            cursor: Cursor of the previous answer
        """
        return cast("BatchesAnswer", self._do("list_batches", {"limit": limit, "cursor": cursor}))

    def compress_batch(
        self,
        id: str,
        *,
        path: str = "0",
        idempotency_key: str | None = None,
    ) -> FoldAnswer:
        """Fold everything below a node of a batch that nothing has happened to; refused while an agent below it runs.

        Args:
            id: The batch's id, or its first digits
            path: The node to fold, like 0.3.1; 0 is the whole batch
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("FoldAnswer", self._do("compress_batch", {"id": id, "path": path}, idempotency_key))

    def prune_batch(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> FoldAnswer:
        """Fold every agent of a batch that nothing has happened to; the others stay as they are.

        Args:
            id: The batch's id, or its first digits
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("FoldAnswer", self._do("prune_batch", {"id": id}, idempotency_key))

    def brief(
        self,
        *,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] | None = None,
        for_agent: str | None = None,
        since: int | None = None,
        max_tokens: int | None = None,
        idempotency_key: str | None = None,
    ) -> BriefAnswer:
        """Show what matters now for a role, in at most 30 lines.

        Args:
            role: Show this role's brief instead of your own
            for_agent: Show what this descendant of yours gets
            since: Show only what changed after this version
            max_tokens: Maximum size of the answer, in tokens
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("BriefAnswer", self._do("brief", {"role": role, "for_agent": for_agent, "since": since, "max_tokens": max_tokens}, idempotency_key))

    def list_briefs(
        self,
        *,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] | None = None,
        for_agent: str | None = None,
        version: int | None = None,
        since: int | None = None,
    ) -> BriefsAnswer:
        """Show the versions of a role's brief, and what changed between them.

        Args:
            role: The role; by default the one whose brief was made last
            for_agent: Show what this descendant of yours gets
            version: Show this version; by default the brief as it is now
            since: Show what changed after this version
        """
        return cast("BriefsAnswer", self._do("list_briefs", {"role": role, "for_agent": for_agent, "version": version, "since": since}))

    def catalog_lookup(
        self,
        name: str,
    ) -> YoolAnswer:
        """Show what a yool does, who may run it, and its limits.

        Args:
            name: The yool's name, with or without a version: agent.lint.ruff, agent.lint.ruff.v2
        """
        return cast("YoolAnswer", self._do("catalog_lookup", {"name": name}))

    def catalog_list_by_lane(
        self,
        *,
        lane: str | None = None,
        cursor: str | None = None,
    ) -> CatalogAnswer:
        """List the yools (named steps) of a lane, or all.

        Args:
            lane: Only yools of this lane
            cursor: Continue after this yool
        """
        return cast("CatalogAnswer", self._do("catalog_list_by_lane", {"lane": lane, "cursor": cursor}))

    def confirm_several(
        self,
        *,
        ids: list[str] | tuple[str, ...] = (),
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> ClaimsConfirmed:
        """Confirm several engrams, or every claim in an agent's answers that awaits confirmation: all, or none.

        Args:
            ids: Ids of the engrams
            agent: Every claim in this agent's answers that awaits confirmation
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ClaimsConfirmed", self._do("confirm_several", {"ids": ids, "agent": agent}, idempotency_key))

    def list_contradictions(
        self,
        *,
        all: bool = False,
        k: int = 20,
        cursor: str | None = None,
    ) -> ContradictionsAnswer:
        """List claims that may contradict each other and wait for a decision.

        Args:
            all: Also those that were decided, or of which a claim has ended
            k: Maximum number of results
            cursor: Continue where the previous answer ended
        """
        return cast("ContradictionsAnswer", self._do("list_contradictions", {"all": all, "k": k, "cursor": cursor}))

    def decide_contradiction(
        self,
        id: str,
        *,
        keep: Literal["new", "old", "both"],
        reason: str,
        idempotency_key: str | None = None,
    ) -> ContradictionRow:
        """Decide which of two contradictory claims holds; the other one is replaced by it.

        Args:
            id: The contradiction's id
            keep: The claim that holds: new, old or both
            reason: The reason
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ContradictionRow", self._do("decide_contradiction", {"id": id, "keep": keep, "reason": reason}, idempotency_key))

    def keep_episode(
        self,
        text: str,
        *,
        kind: str = "fact",
        slug: str | None = None,
        categories: list[str] | tuple[str, ...] = (),
        importance: float = 0.5,
        pinned: bool = False,
        ttl: str | None = None,
        pointers: Sequence[Pointer | str] = (),
        at: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> EpisodeAnswer:
        """Record something for the team to remember: a decision, a preference, the state of work.

        Args:
            text: What to remember
            kind: Kind of memory: decision, preference, workflow, …
            slug: Short name; a name that exists gets a new version
            categories: Category to file it under
            importance: How much it matters, 0 to 1
            pinned: Pin it, so that every agent inherits it
            ttl: Lifetime: P30D is 30 days; unlimited by default
            pointers: Pointer to evidence, with its commit or digest
            at: Evidence: path:10-20 at HEAD, or a pointer's ref
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("EpisodeAnswer", self._do("keep_episode", {"text": text, "kind": kind, "slug": slug, "categories": categories, "importance": importance, "pinned": pinned, "ttl": ttl, "pointers": pointers, "at": at}, idempotency_key))

    def pin_episode(
        self,
        id: str,
        *,
        unpin: bool = False,
        idempotency_key: str | None = None,
    ) -> EpisodeAnswer:
        """Keep a memory among those every agent inherits, or release it.

        Args:
            id: The memory: decision:use-sqlite, or its memory_id
            unpin: Unpin it instead
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("EpisodeAnswer", self._do("pin_episode", {"id": id, "unpin": unpin}, idempotency_key))

    def contribute(
        self,
        content: str,
        *,
        confidence: float = 0.7,
        thread_id: str = "default",
        proposed_categories: list[str] | tuple[str, ...] = (),
        evidence: list[EvidenceInput] | tuple[EvidenceInput, ...] = (),
        inputs_used: list[str] | tuple[str, ...] = (),
        used: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> Contribution:
        """Propose something you learned; your parent decides if the team keeps it.

        Args:
            content: What you learned
            confidence: How sure you are, 0 to 1
            thread_id: The task it belongs to
            proposed_categories: Category to file it under
            evidence: path, url, command_output or note, with a value
            inputs_used: What it is based on: a snapshot's id, a memory, an engram or a pointer
            used: Id of an engram that it is based on; at most 12
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Contribution", self._do("contribute", {"content": content, "confidence": confidence, "thread_id": thread_id, "proposed_categories": proposed_categories, "evidence": evidence, "inputs_used": inputs_used, "used": used}, idempotency_key))

    def request_deref(
        self,
        pointer: Pointer | str,
        *,
        reason: str,
        intended_use: str = "",
        max_tokens: int = 400,
        idempotency_key: str | None = None,
    ) -> RequestAnswer:
        """Ask your parent to let you read more.

        Args:
            pointer: path:10-20, a pointer, or its ref
            reason: Why you need it
            intended_use: What it is needed for
            max_tokens: Tokens it may cost in total
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RequestAnswer", self._do("request_deref", {"pointer": pointer, "reason": reason, "intended_use": intended_use, "max_tokens": max_tokens}, idempotency_key))

    def list_requests(
        self,
    ) -> RequestsAnswer:
        """List requests to read more that wait for your answer."""
        return cast("RequestsAnswer", self._do("list_requests", {}))

    def approve_request(
        self,
        id: str,
        *,
        cap_tokens: int | None = None,
        uses: int = 1,
        expires_in: str | None = None,
        biscuit: bool = False,
        idempotency_key: str | None = None,
    ) -> GrantAnswer:
        """Approve a request to read more, and issue the grant.

        Args:
            id: The request's id
            cap_tokens: Tokens it may cost in total; by default what was asked for
            uses: Number of times it may be used
            expires_in: Lifetime: PT6H is 6 hours, P7D is 7 days; default one hour
            biscuit: Also return the grant as a Biscuit, which its holder can narrow without the gateway
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("GrantAnswer", self._do("approve_request", {"id": id, "cap_tokens": cap_tokens, "uses": uses, "expires_in": expires_in, "biscuit": biscuit}, idempotency_key))

    def deny_request(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> DenyAnswer:
        """Deny a request to read more.

        Args:
            id: The request's id
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DenyAnswer", self._do("deny_request", {"id": id}, idempotency_key))

    def feed(
        self,
        q: str = "",
        *,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] | None = None,
        agent: str | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        scope: Literal["run", "project", "org", "global"] | None = None,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] | None = None,
        stale: bool = False,
        untrusted: bool = False,
        unconfirmed: bool = False,
        id: str | None = None,
        k: int = 50,
        cursor: str | None = None,
    ) -> FeedAnswer:
        """List engrams by time, with their author and whether their evidence has changed.

        Args:
            q: Only engrams that contain all of these words
            role: Only by agents of this role
            agent: Only by this agent, of any run or by its full name
            path: Only what points at this file, into this folder or at what this pattern matches
            since: Only from this time on: 2026-01-31T12:00:00Z, or PT2H ago
            until: Only before this time, written like --since
            scope: Only engrams of this scope
            kind: Only engrams of this kind
            stale: Only engrams whose evidence has changed since
            untrusted: Only adopted engrams that no person has confirmed
            unconfirmed: Only claims from prose that await confirmation
            id: Only this engram
            k: Maximum number of results
            cursor: Continue where the previous answer ended
        """
        return cast("FeedAnswer", self._do("feed", {"q": q, "role": role, "agent": agent, "path": path, "since": since, "until": until, "scope": scope, "kind": kind, "stale": stale, "untrusted": untrusted, "unconfirmed": unconfirmed, "id": id, "k": k, "cursor": cursor}))

    def query_engrams(
        self,
        q: str = "",
        *,
        keys: list[str] | tuple[str, ...] = (),
        k: int = 12,
        scope: Literal["run", "project", "org", "global"] | None = None,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] | None = None,
        others: bool = False,
        since_last: bool = False,
        agent: str | None = None,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] | None = None,
        path: str | None = None,
        since: str | None = None,
        until: str | None = None,
        max_tokens: int | None = None,
        cursor: str | None = None,
        as_of: str | None = None,
    ) -> QueryAnswer:
        """Find engrams and memories by words, or list the newest.

        Args:
            q: Words to search for
            keys: An exact key, as `engrambus show` lists them
            k: Maximum number of results
            scope: Only engrams of this scope
            kind: Only engrams of this kind
            others: Only what others learned, not you
            since_last: Only what you were not shown yet; without words or filters, it counts as shown then
            agent: Only by this agent, of any run or by its full name
            role: Only by agents of this role
            path: Only what points at this file, into this folder or at what this pattern matches
            since: Only from this time on: 2026-01-31T12:00:00Z, or PT2H ago
            until: Only before this time, written like --since
            max_tokens: Maximum size of the answer, in tokens
            cursor: Continue where the previous answer ended; only without search words
            as_of: Ask the past: a date, a time, or P7D for 7 days ago
        """
        return cast("QueryAnswer", self._do("query_engrams", {"q": q, "keys": keys, "k": k, "scope": scope, "kind": kind, "others": others, "since_last": since_last, "agent": agent, "role": role, "path": path, "since": since, "until": until, "max_tokens": max_tokens, "cursor": cursor, "as_of": as_of}))

    def query_by_embedding(
        self,
        embedding_ref: str,
        *,
        k: int = 12,
    ) -> QueryAnswer:
        """Find the engrams whose meaning is most similar to an engram's; refused where search by meaning is off.

        Args:
            embedding_ref: `emb:` and the id of the engram whose embedding is compared with others
            k: Maximum number of results
        """
        return cast("QueryAnswer", self._do("query_by_embedding", {"embedding_ref": embedding_ref, "k": k}))

    def get_engram(
        self,
        id: str,
    ) -> Engram:
        """Return one engram in full, as the published schema has it.

        Args:
            id: The engram's id, or the pointer to a memory
        """
        return cast("Engram", self._do("get_engram", {"id": id}))

    def show_engram(
        self,
        id: str,
    ) -> ShownEngram:
        """Show one engram in full, with what it used and what used it.

        Args:
            id: The engram's id, or the pointer to a memory
        """
        return cast("ShownEngram", self._do("show_engram", {"id": id}))

    def put_engram(
        self,
        claim: str,
        *,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] = "fact",
        pointers: Sequence[Pointer | str] = (),
        at: list[str] | tuple[str, ...] = (),
        snapshot: bool = False,
        confidence: float | UnsetType = UNSET,
        ttl: str | UnsetType = UNSET,
        scope: Literal["run", "project", "org", "global"] | UnsetType = UNSET,
        tags: list[str] | tuple[str, ...] | UnsetType = UNSET,
        hash_keys: list[str] | tuple[str, ...] | UnsetType = UNSET,
        embedding_ref: str | UnsetType = UNSET,
        used: list[str] | tuple[str, ...] = (),
        replaces: str | UnsetType = UNSET,
        id: str | UnsetType = UNSET,
        provenance: dict[str, Any] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Engram:
        """Record an engram: one claim with pointers to its evidence.

        Args:
            claim: 1-3 sentences, at most 500 characters
            kind: Kind of claim
            pointers: Pointer to evidence, with its commit or digest
            at: Evidence: path:10-20 at HEAD, or a pointer's ref
            snapshot: Paths in `at` mean the files on disk, also uncommitted lines
            confidence: How sure you are, 0 to 1
            ttl: Lifetime: PT6H is 6 hours, P7D is 7 days
            scope: Who can see it: this run, the project, or more
            tags: A word to file it under
            hash_keys: An extra key to find it by
            embedding_ref: Where an embedding of it is stored
            used: Id of an engram that it is based on; at most 12
            replaces: Id of the engram it replaces
            id: Its id, a ULID or UUID; made for you by default
            provenance: Stamped by the gateway; refused here
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Engram", self._do("put_engram", {"claim": claim, "kind": kind, "pointers": pointers, "at": at, "snapshot": snapshot, "confidence": confidence, "ttl": ttl, "scope": scope, "tags": tags, "hash_keys": hash_keys, "embedding_ref": embedding_ref, "used": used, "replaces": replaces, "id": id, "provenance": provenance}, idempotency_key))

    def put_found(
        self,
        claim: str,
        source: Literal["rag", "sam"],
        *,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] = "fact",
        pointers: Sequence[Pointer | str] = (),
        at: list[str] | tuple[str, ...] = (),
        snapshot: bool = False,
        confidence: float | UnsetType = UNSET,
        ttl: str | UnsetType = UNSET,
        scope: Literal["run", "project", "org", "global"] | UnsetType = UNSET,
        tags: list[str] | tuple[str, ...] | UnsetType = UNSET,
        hash_keys: list[str] | tuple[str, ...] | UnsetType = UNSET,
        embedding_ref: str | UnsetType = UNSET,
        used: list[str] | tuple[str, ...] = (),
        replaces: str | UnsetType = UNSET,
        id: str | UnsetType = UNSET,
        provenance: dict[str, Any] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Engram:
        """Record an engram about something looked up for an agent, and where it was found.

        Args:
            claim: 1-3 sentences, at most 500 characters
            source: Where it was found: by retrieval, or in the memory
            kind: Kind of claim
            pointers: Pointer to evidence, with its commit or digest
            at: Evidence: path:10-20 at HEAD, or a pointer's ref
            snapshot: Paths in `at` mean the files on disk, also uncommitted lines
            confidence: How sure you are, 0 to 1
            ttl: Lifetime: PT6H is 6 hours, P7D is 7 days
            scope: Who can see it: this run, the project, or more
            tags: A word to file it under
            hash_keys: An extra key to find it by
            embedding_ref: Where an embedding of it is stored
            used: Id of an engram that it is based on; at most 12
            replaces: Id of the engram it replaces
            id: Its id, a ULID or UUID; made for you by default
            provenance: Stamped by the gateway; refused here
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Engram", self._do("put_found", {"claim": claim, "source": source, "kind": kind, "pointers": pointers, "at": at, "snapshot": snapshot, "confidence": confidence, "ttl": ttl, "scope": scope, "tags": tags, "hash_keys": hash_keys, "embedding_ref": embedding_ref, "used": used, "replaces": replaces, "id": id, "provenance": provenance}, idempotency_key))

    def put_engrams(
        self,
        engrams: list[PutEngram] | tuple[PutEngram, ...],
        *,
        idempotency_key: str | None = None,
    ) -> PutAnswer:
        """Record many engrams in one commit: all of them, or none.

        Args:
            engrams: At most 500
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PutAnswer", self._do("put_engrams", {"engrams": engrams}, idempotency_key))

    def forget_engram(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> ForgetAnswer:
        """Remove an engram, so that no query and no brief shows it again.

        Args:
            id: The engram's id, or the pointer to a memory
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ForgetAnswer", self._do("forget_engram", {"id": id}, idempotency_key))

    def confirm_engram(
        self,
        id: str,
        *,
        at: list[str] | tuple[str, ...] = (),
        snapshot: bool = False,
        pointers: Sequence[Pointer | str] = (),
        idempotency_key: str | None = None,
    ) -> ConfirmAnswer:
        """Confirm that an engram is still true; its lifetime starts again.

        Args:
            id: The engram's id, or the pointer to a memory
            at: The lines that show it now, in place of those that have changed
            snapshot: Paths in `at` mean the files on disk, also uncommitted lines
            pointers: The same as a pointer, with its commit or digest
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ConfirmAnswer", self._do("confirm_engram", {"id": id, "at": at, "snapshot": snapshot, "pointers": pointers}, idempotency_key))

    def promote_engram(
        self,
        id: str,
        *,
        scope: Literal["run", "project", "org", "global"] = "project",
        idempotency_key: str | None = None,
    ) -> Engram:
        """Show an engram to more agents: to the project, then to wider scopes.

        Args:
            id: The engram's id
            scope: The next wider scope
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Engram", self._do("promote_engram", {"id": id, "scope": scope}, idempotency_key))

    def pin_engram(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> PinAnswer:
        """Show an engram first in every brief, until it is unpinned.

        Args:
            id: The engram's id, or the pointer to a memory
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PinAnswer", self._do("pin_engram", {"id": id}, idempotency_key))

    def unpin_engram(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> PinAnswer:
        """Stop showing an engram first in every brief.

        Args:
            id: The engram's id, or the pointer to a memory
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PinAnswer", self._do("unpin_engram", {"id": id}, idempotency_key))

    def check_evidence(
        self,
        *,
        against: str | None = None,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] | None = None,
        path: str | None = None,
        all: bool = False,
        k: int = 200,
        cursor: str | None = None,
    ) -> EvidenceReport:
        """List the engrams whose lines are gone, have changed or moved.

        Args:
            against: Compare with this commit instead of the files on disk
            kind: Only engrams of this kind
            path: Only what points at this file, into this folder or at what this pattern matches
            all: List all that were compared, also those whose lines are the same
            k: How many engrams one answer compares
            cursor: Continue where the previous answer ended
        """
        return cast("EvidenceReport", self._do("check_evidence", {"against": against, "kind": kind, "path": path, "all": all, "k": k, "cursor": cursor}))

    def check_gate(
        self,
        base: str,
        *,
        head: str | None = None,
    ) -> GateAnswer:
        """Fail if a branch changes lines with an open risk, or lines that a decision rests on.

        Args:
            base: The branch it is merged into: a full commit id
            head: The branch's last commit; the one checked out by default
        """
        return cast("GateAnswer", self._do("check_gate", {"base": base, "head": head}))

    def override_gate(
        self,
        id: str,
        reason: str,
        base: str,
        *,
        identity: str | None = None,
        head: str | None = None,
        idempotency_key: str | None = None,
    ) -> GateOverride:
        """Let a branch pass although the gate found something; the reason and who answers for it are recorded.

        Args:
            id: The id of the finding's engram
            reason: Why the branch may be merged all the same
            base: The branch it is merged into: a full commit id
            identity: Who answers for it; an agent answers under its own name
            head: The branch's last commit; the one checked out by default
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("GateOverride", self._do("override_gate", {"id": id, "reason": reason, "base": base, "identity": identity, "head": head}, idempotency_key))

    def list_gate_overrides(
        self,
        *,
        k: int = 50,
    ) -> GateOverrides:
        """List what was let pass at the merge gate, by whom and why.

        Args:
            k: Maximum number of results
        """
        return cast("GateOverrides", self._do("list_gate_overrides", {"k": k}))

    def collect_garbage(
        self,
        *,
        dry_run: bool = False,
        hot_days: int | None = None,
        warm_days: int | None = None,
        max_mb: int | None = None,
        idempotency_key: str | None = None,
    ) -> GarbageAnswer:
        """Free disk space: delete stored output that no receipt has to keep.

        Args:
            dry_run: Only report what would be deleted
            hot_days: Days to keep artifacts, instead of the policy's
            warm_days: Days to keep output, instead of the policy's
            max_mb: Megabytes the catalog may take, instead of the policy's max_total_mb
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("GarbageAnswer", self._do("collect_garbage", {"dry_run": dry_run, "hot_days": hot_days, "warm_days": warm_days, "max_mb": max_mb}, idempotency_key))

    def issue_grant(
        self,
        child_id: str,
        pointer: Pointer | str,
        *,
        cap_tokens: int | UnsetType = UNSET,
        from_grant: str | None = None,
        uses: int | UnsetType = UNSET,
        expires_in: str | UnsetType = UNSET,
        intended_use: str | UnsetType = UNSET,
        inline_code_chars: int | UnsetType = UNSET,
        biscuit: bool = False,
        idempotency_key: str | None = None,
    ) -> GrantAnswer:
        """Let a child agent read more than its turn allows.

        Args:
            child_id: The agent, a descendant of yours; it may pass on a smaller grant
            pointer: path:10-20, a pointer, or its ref
            cap_tokens: Tokens it may cost in total; default 400
            from_grant: Budget token of a grant you hold, to pass on less of it
            uses: Number of times it may be used; default 1
            expires_in: Lifetime: PT6H is 6 hours, P7D is 7 days; default one hour
            intended_use: What it is needed for
            inline_code_chars: Characters of code a message may carry with this grant; default 0
            biscuit: Also return the grant as a Biscuit, which its holder can narrow without the gateway
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("GrantAnswer", self._do("issue_grant", {"child_id": child_id, "pointer": pointer, "cap_tokens": cap_tokens, "from_grant": from_grant, "uses": uses, "expires_in": expires_in, "intended_use": intended_use, "inline_code_chars": inline_code_chars, "biscuit": biscuit}, idempotency_key))

    def narrow_grant(
        self,
        budget_token: str,
        child_id: str,
        *,
        pointer: Pointer | str | None = None,
        cap_tokens: int | None = None,
        uses: int | None = None,
        expires_in: str | None = None,
        intended_use: str | None = None,
        inline_code_chars: int | None = None,
        biscuit: bool = False,
        idempotency_key: str | None = None,
    ) -> GrantAnswer:
        """Pass on a part of a grant that you hold to a descendant of yours.

        Args:
            budget_token: Budget token of the grant: its handle, g_ and its id, or a Biscuit of it
            child_id: The agent, a descendant of yours
            pointer: path:10-20, a pointer, or its ref
            cap_tokens: Tokens it may cost; default all that are left
            uses: Number of uses; default all that are left
            expires_in: Lifetime: PT10M is 10 minutes; default as long as the grant
            intended_use: What it is needed for
            inline_code_chars: Characters of code in a message; default as the grant allows
            biscuit: Also return the grant as a Biscuit, which its holder can narrow without the gateway
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("GrantAnswer", self._do("narrow_grant", {"budget_token": budget_token, "child_id": child_id, "pointer": pointer, "cap_tokens": cap_tokens, "uses": uses, "expires_in": expires_in, "intended_use": intended_use, "inline_code_chars": inline_code_chars, "biscuit": biscuit}, idempotency_key))

    def list_grants(
        self,
        *,
        usable: bool = False,
        cursor: str | None = None,
    ) -> GrantsAnswer:
        """List the grants that you issued, hold or passed on, and what is left of them.

        Args:
            usable: Only grants that can still be used
            cursor: Continue after this grant
        """
        return cast("GrantsAnswer", self._do("list_grants", {"usable": usable, "cursor": cursor}))

    def revoke_grant(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> RevokeAnswer:
        """Revoke a grant that you issued or passed on, and everything narrowed from it.

        Args:
            id: The grant's id, or its budget token
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RevokeAnswer", self._do("revoke_grant", {"id": id}, idempotency_key))

    def inbox(
        self,
        *,
        cursor: int = 0,
        k: int = 20,
        max_tokens: int | None = None,
        unseen: bool = False,
        short: bool = False,
        recent: int = 0,
        newest_first: bool = False,
        idempotency_key: str | None = None,
    ) -> InboxAnswer:
        """List what others sent you: reports, notes, broadcasts, requests and grants.

        Args:
            cursor: Continue where the previous answer ended
            k: Maximum number of results
            max_tokens: Maximum size of the answer, in tokens
            unseen: Only what you were not shown yet; what the answer shows then counts as seen
            short: One line for each instead of its text
            recent: With unseen and short: add lines of up to so many that you have seen
            newest_first: The newest first; the cursor then continues with older ones
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("InboxAnswer", self._do("inbox", {"cursor": cursor, "k": k, "max_tokens": max_tokens, "unseen": unseen, "short": short, "recent": recent, "newest_first": newest_first}, idempotency_key))

    def read_mail(
        self,
        id: str,
        *,
        max_tokens: int | None = None,
    ) -> MailAnswer:
        """Show one message, broadcast, request or grant from your inbox.

        Args:
            id: The id of the mail, or its beginning
            max_tokens: Maximum size of the answer, in tokens
        """
        return cast("MailAnswer", self._do("read_mail", {"id": id, "max_tokens": max_tokens}))

    def limit_set(
        self,
        *,
        lane: str | None = None,
        key: str | None = None,
        authority: Literal["user", "agent", "ci"] | None = None,
        run: str | None = None,
        running: int | None = None,
        rate: str | None = None,
        idempotency_key: str | None = None,
    ) -> LimitRow:
        """Limit how many tasks run at once, or start within a time.

        Args:
            lane: Tasks of this lane (queue)
            key: Tasks with this concurrency key; `customer-*` is each key that begins so
            authority: Tasks on this authority: user, agent or ci
            run: Tasks of this run
            running: How many may run at once, at least 1
            rate: How many may start within a time: 100/PT1M
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("LimitRow", self._do("limit_set", {"lane": lane, "key": key, "authority": authority, "run": run, "running": running, "rate": rate}, idempotency_key))

    def limit_list(
        self,
    ) -> Limits:
        """List limits and pauses, what is used of each now, and how many tasks wait because of it."""
        return cast("Limits", self._do("limit_list", {}))

    def limit_remove(
        self,
        *,
        lane: str | None = None,
        key: str | None = None,
        authority: Literal["user", "agent", "ci"] | None = None,
        run: str | None = None,
        idempotency_key: str | None = None,
    ) -> LimitRow:
        """Remove a limit. Name the same tasks as when it was set.

        Args:
            lane: Tasks of this lane (queue)
            key: Tasks with this concurrency key; `customer-*` is each key that begins so
            authority: Tasks on this authority: user, agent or ci
            run: Tasks of this run
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("LimitRow", self._do("limit_remove", {"lane": lane, "key": key, "authority": authority, "run": run}, idempotency_key))

    def work_pause(
        self,
        *,
        lane: str | None = None,
        key: str | None = None,
        authority: Literal["user", "agent", "ci"] | None = None,
        run: str | None = None,
        why: str = "",
        idempotency_key: str | None = None,
    ) -> LimitRow:
        """Let no task of a lane, run, authority or key start until `unpause`. What runs goes on, nothing is lost.

        Args:
            lane: Tasks of this lane (queue)
            key: Tasks with this concurrency key; `customer-*` is each key that begins so
            authority: Tasks on this authority: user, agent or ci
            run: Tasks of this run
            why: Why, for those who find their tasks waiting
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("LimitRow", self._do("work_pause", {"lane": lane, "key": key, "authority": authority, "run": run, "why": why}, idempotency_key))

    def work_unpause(
        self,
        *,
        lane: str | None = None,
        key: str | None = None,
        authority: Literal["user", "agent", "ci"] | None = None,
        run: str | None = None,
        idempotency_key: str | None = None,
    ) -> LimitRow:
        """End a pause: its tasks start again. Name the same tasks as when they were paused.

        Args:
            lane: Tasks of this lane (queue)
            key: Tasks with this concurrency key; `customer-*` is each key that begins so
            authority: Tasks on this authority: user, agent or ci
            run: Tasks of this run
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("LimitRow", self._do("work_unpause", {"lane": lane, "key": key, "authority": authority, "run": run}, idempotency_key))

    def put_text(
        self,
        text: str,
        *,
        kind: Literal["fact", "decision", "risk", "todo", "constraint", "diff", "test", "perf", "policy"] = "fact",
        pointers: Sequence[Pointer | str] = (),
        at: list[str] | tuple[str, ...] = (),
        snapshot: bool = False,
        confidence: float | UnsetType = UNSET,
        ttl: str | UnsetType = UNSET,
        scope: Literal["run", "project", "org", "global"] | UnsetType = UNSET,
        tags: list[str] | tuple[str, ...] | UnsetType = UNSET,
        hash_keys: list[str] | tuple[str, ...] | UnsetType = UNSET,
        used: list[str] | tuple[str, ...] = (),
        replaces: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> PutTextAnswer:
        """Record a text of any length as engrams, in order and in one commit.

        Args:
            text: At most 100000 characters; it may begin with `Ada: `
            kind: Kind of claim
            pointers: Pointer to evidence, with its commit or digest
            at: Evidence: path:10-20 at HEAD, or a pointer's ref
            snapshot: Paths in `at` mean the files on disk, also uncommitted lines
            confidence: How sure you are, 0 to 1
            ttl: Lifetime: PT6H is 6 hours, P7D is 7 days
            scope: Who can see it: this run, the project, or more
            tags: A word to file it under
            hash_keys: An extra key to find it by
            used: Id of an engram that it is based on; at most 12
            replaces: Id of the engram that the first one replaces
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PutTextAnswer", self._do("put_text", {"text": text, "kind": kind, "pointers": pointers, "at": at, "snapshot": snapshot, "confidence": confidence, "ttl": ttl, "scope": scope, "tags": tags, "hash_keys": hash_keys, "used": used, "replaces": replaces}, idempotency_key))

    def memory_read(
        self,
        query: str,
        store_paths: list[str] | tuple[str, ...],
        budget: Budget,
        *,
        scoring: Scoring | None = None,
        trust_filter: TrustFilter | None = None,
        now_utc: str | None = None,
        dropped: Literal["full", "counts"] = "full",
        idempotency_key: str | None = None,
    ) -> ContextPackage:
        """Search JSONL memory files; equal input gives equal excerpts, within a token limit.

        Args:
            query: What to search for
            store_paths: The JSONL files to read
            budget: At least max_excerpt_tokens
            scoring: How records are scored
            trust_filter: Which records are left out
            now_utc: The time that ages are measured from
            dropped: List what was dropped, or only count it by reason
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ContextPackage", self._do("memory_read", {"query": query, "store_paths": store_paths, "budget": budget, "scoring": scoring, "trust_filter": trust_filter, "now_utc": now_utc, "dropped": dropped}, idempotency_key))

    def send_message(
        self,
        text: str,
        *,
        to: str | None = None,
        budget_token: str | None = None,
        used: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> MessageAnswer:
        """Report to your parent: engrams, pointers and a short answer.

        Args:
            text: YAML: ROLE, TASK_STATUS, ENGRAMS, OUTPUT
            to: This agent instead, plain words too
            budget_token: Budget token of a grant that allows inline code
            used: Id of an engram that it is based on; at most 12
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("MessageAnswer", self._do("send_message", {"text": text, "to": to, "budget_token": budget_token, "used": used}, idempotency_key))

    def broadcast(
        self,
        text: str,
        *,
        to: list[str] | tuple[str, ...] = (),
        used: list[str] | tuple[str, ...] = (),
        with_limits: bool = False,
        idempotency_key: str | None = None,
    ) -> BroadcastAnswer:
        """Send your child agents what matters, what they may spend and what to do.

        Args:
            text: The message, as YAML or JSON
            to: Send it to this child or role only, such as role:programmer
            used: Id of an engram that it is based on; at most 12
            with_limits: Show the children the limits in force that BUDGETS does not name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("BroadcastAnswer", self._do("broadcast", {"text": text, "to": to, "used": used, "with_limits": with_limits}, idempotency_key))

    def validate_message(
        self,
        text: str,
        *,
        kind: Literal["child", "parent"] = "child",
    ) -> ValidateAnswer:
        """Check a message without sending it.

        Args:
            text: The message, as YAML or JSON
            kind: Check it as a child's report, or as a parent's broadcast
        """
        return cast("ValidateAnswer", self._do("validate_message", {"text": text, "kind": kind}))

    def add_person(
        self,
        name: str,
        *,
        admin: bool = False,
        expires_in: str | None = None,
        idempotency_key: str | None = None,
    ) -> PersonAnswer:
        """Add a colleague who works on the project over a server, and print a token, this once.

        Args:
            name: The person's name; capitals do not count
            admin: May administer the project: add people, apply the policy, use the page
            expires_in: Lifetime of the token: P30D is 30 days; by default, and at most, what the policy says
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PersonAnswer", self._do("add_person", {"name": name, "admin": admin, "expires_in": expires_in}, idempotency_key))

    def person_token(
        self,
        name: str,
        *,
        expires_in: str | None = None,
        idempotency_key: str | None = None,
    ) -> PersonAnswer:
        """Print another token for a person, as for a second machine; only administrators do that for others.

        Args:
            name: The person's name; capitals do not count
            expires_in: Lifetime of the token: P30D is 30 days; by default, and at most, what the policy says
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PersonAnswer", self._do("person_token", {"name": name, "expires_in": expires_in}, idempotency_key))

    def list_people(
        self,
    ) -> PeopleAnswer:
        """List the people who work on the project over a server."""
        return cast("PeopleAnswer", self._do("list_people", {}))

    def remove_person(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> RemovedPerson:
        """Remove a person: all tokens end at once. What the person has put and decided stays.

        Args:
            name: The person's name; capitals do not count
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RemovedPerson", self._do("remove_person", {"name": name}, idempotency_key))

    def whoami(
        self,
        *,
        commits: list[str] | tuple[str, ...] = (),
    ) -> WhoamiAnswer:
        """Show which server and project you work with, and as whom.

        Args:
            commits: Commits of your clone, to compare the repositories by
        """
        return cast("WhoamiAnswer", self._do("whoami", {"commits": commits}))

    def deref_pointer(
        self,
        pointer: Pointer | str,
        *,
        max_tokens: int = 400,
        budget_token: str | None = None,
        tail: bool = False,
        idempotency_key: str | None = None,
    ) -> DerefAnswer:
        """Read the text a pointer leads to, within a token limit.

        Args:
            pointer: path:10-20, a pointer, or its ref
            max_tokens: Maximum size of the answer in tokens; longer text is cut at the end of a line
            budget_token: Budget token of the grant: its handle, g_ and its id, or a Biscuit of it
            tail: If it does not fit, show its end instead of its beginning
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DerefAnswer", self._do("deref_pointer", {"pointer": pointer, "max_tokens": max_tokens, "budget_token": budget_token, "tail": tail}, idempotency_key))

    def validate_deref(
        self,
        pointer: Pointer | str | None = None,
        *,
        pointer_type: Literal["repo", "artifact", "sam", "diff", "test", "url"] | None = None,
        agent_id: str | None = None,
        budget_token: str | None = None,
    ) -> ValidateDerefAnswer:
        """Check whether you may read a pointer now, without reading it; or what is left for a type of pointers.

        Args:
            pointer: path:10-20, a pointer, or its ref
            pointer_type: Instead of a pointer: what is left for this type
            agent_id: A descendant of yours; by default you
            budget_token: Budget token of the grant: its handle, g_ and its id, or a Biscuit of it
        """
        return cast("ValidateDerefAnswer", self._do("validate_deref", {"pointer": pointer, "pointer_type": pointer_type, "agent_id": agent_id, "budget_token": budget_token}))

    def link_pointer(
        self,
        ref: str,
    ) -> LinkAnswer:
        """Print links to a pointer's lines: for an editor, GitHub and the Software Heritage archive.

        Args:
            ref: path:10-20, or the pointer's ref
        """
        return cast("LinkAnswer", self._do("link_pointer", {"ref": ref}))

    def anchor_text(
        self,
        text: str,
        *,
        path: str | None = None,
        revision: str | None = None,
        snapshot: bool = False,
    ) -> AnchorAnswer:
        """Find the lines that contain a text and return a pointer.

        Args:
            text: The text to find: lines of a file
            path: Look in this file: its path, the end of its path, or its name
            revision: The commit to look in; HEAD by default
            snapshot: Uncommitted lines too
        """
        return cast("AnchorAnswer", self._do("anchor_text", {"text": text, "path": path, "revision": revision, "snapshot": snapshot}))

    def list_promotions(
        self,
        *,
        all: bool = False,
        k: int = 50,
    ) -> PromotionsAnswer:
        """List requests to show an engram to other projects, which wait for an admin.

        Args:
            all: Show answered requests too
            k: Maximum number of results
        """
        return cast("PromotionsAnswer", self._do("list_promotions", {"all": all, "k": k}))

    def approve_promotion(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> PromotionRow:
        """Approve a request, so that other projects see the engram.

        Args:
            id: The request's id
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PromotionRow", self._do("approve_promotion", {"id": id}, idempotency_key))

    def decline_promotion(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> PromotionRow:
        """Decline a request; the engram stays as it is.

        Args:
            id: The request's id
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("PromotionRow", self._do("decline_promotion", {"id": id}, idempotency_key))

    def recall(
        self,
        text: str = "",
        *,
        paths: list[str] | tuple[str, ...] = (),
        occasion: Literal["prompt", "task", "subagent", "edit"] = "prompt",
        max_tokens: int = 300,
        record: bool = False,
        task: str = "",
        forget: bool = False,
        idempotency_key: str | None = None,
    ) -> RecallAnswer:
        """Show what a hook would show an agent with this prompt: at most 5 engrams, or nothing.

        Args:
            text: The prompt, or a sub-agent's task
            paths: A file it is about, with the lines if known: src/a.py:10-20
            occasion: A `prompt`, an `edit` of the paths, the `task` of a sub-agent to be, a `subagent` that starts
            max_tokens: Maximum size of the lines, in tokens
            record: Count what is shown as shown: the agent does not get it again in its session
            task: Digest by which a sub-agent's task is found again
            forget: Forget what was shown before, because the agent's context was compacted
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RecallAnswer", self._do("recall", {"text": text, "paths": paths, "occasion": occasion, "max_tokens": max_tokens, "record": record, "task": task, "forget": forget}, idempotency_key))

    def receipt_list(
        self,
        *,
        run: str | None = None,
        yool: str | None = None,
        failed: bool = False,
        tuple_id: str | None = None,
        since: str | None = None,
        all: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        max_tokens: int | None = None,
    ) -> ReceiptsAnswer:
        """List receipts: what the steps of a run did, which failed, which were cached, and what they cost.

        Args:
            run: Only receipts of this run; an agent sees those of its own
            yool: Only of this yool, or of those it is the beginning of
            failed: Only executions that failed
            tuple_id: Only of this task, by its id or the first digits of it
            since: Only from this time on: 2026-01-31T12:00:00Z, or PT2H ago
            all: Include receipts of whole tasks and of accepting them
            limit: Maximum number of receipts
            cursor: Cursor of the previous answer
            max_tokens: Maximum size of the answer, in tokens
        """
        return cast("ReceiptsAnswer", self._do("receipt_list", {"run": run, "yool": yool, "failed": failed, "tuple_id": tuple_id, "since": since, "all": all, "limit": limit, "cursor": cursor, "max_tokens": max_tokens}))

    def receipt_get(
        self,
        id: str,
        *,
        intoto: bool = False,
    ) -> ReceiptAnswer:
        """Show a receipt: the record of one executed step.

        Args:
            id: The receipt's id, or its first digits
            intoto: Return an in-toto statement instead
        """
        return cast("ReceiptAnswer", self._do("receipt_get", {"id": id, "intoto": intoto}))

    def receipt_verify(
        self,
        id: str,
    ) -> ReceiptCheck:
        """Check a receipt: recompute its id and the digest of everything it names.

        Args:
            id: The receipt's id, or its first digits
        """
        return cast("ReceiptCheck", self._do("receipt_verify", {"id": id}))

    def record_tests(
        self,
        report: str,
        *,
        name: str = "junit.xml",
        idempotency_key: str | None = None,
    ) -> TestReportAnswer:
        """Record a JUnit test report as a receipt, so that test: pointers can refer to it.

        Args:
            report: A test report in JUnit's XML
            name: The report's file name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TestReportAnswer", self._do("record_tests", {"report": report, "name": name}, idempotency_key))

    def reserve(
        self,
        paths: list[str] | tuple[str, ...],
        *,
        reason: str = "",
        expires_in: str | None = None,
        process: str | None = None,
        idempotency_key: str | None = None,
    ) -> ReservationRow:
        """Reserve files, folders or patterns that you are going to edit, so that others keep out of them.

        Args:
            paths: Files, folders or patterns: src/billing/**
            reason: Your work on them, in a few words
            expires_in: How long, as an ISO 8601 duration; PT30M by default, the policy sets the ceiling
            process: The process you work in, as <host>/<pid>.<start time>; what you reserve or claim ends with it
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ReservationRow", self._do("reserve", {"paths": paths, "reason": reason, "expires_in": expires_in, "process": process}, idempotency_key))

    def list_reservations(
        self,
        *,
        foreign: bool = False,
    ) -> ReservationsAnswer:
        """List what agents and people have reserved, in all runs of the project.

        Args:
            foreign: Only those that concern you: of agents you do not work for
        """
        return cast("ReservationsAnswer", self._do("list_reservations", {"foreign": foreign}))

    def release_reservations(
        self,
        paths: list[str] | tuple[str, ...] = (),
        *,
        all: bool = False,
        idempotency_key: str | None = None,
    ) -> ReleaseAnswer:
        """Release reservations before they expire: by id, by path, or all of yours.

        Args:
            paths: Ids of reservations, or paths of them; all of yours by default
            all: Also what your descendants hold; for a person, what everyone holds
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ReleaseAnswer", self._do("release_reservations", {"paths": paths, "all": all}, idempotency_key))

    def check_reservations(
        self,
        paths: list[str] | tuple[str, ...],
    ) -> CheckAnswer:
        """Check whether others have reserved paths that you are going to edit.

        Args:
            paths: Files, folders or patterns: src/billing/**
        """
        return cast("CheckAnswer", self._do("check_reservations", {"paths": paths}))

    def list_contributions(
        self,
        *,
        status: Literal["submitted", "duplicate", "flagged", "accepted", "rejected", "withdrawn", "all"] | None = None,
        thread_id: str | None = None,
        k: int = 20,
        cursor: str | None = None,
        max_tokens: int | None = None,
    ) -> ContributionsAnswer:
        """List contributions that wait for a decision: your own and your descendants'.

        Args:
            status: Only contributions with this status; by default those that wait
            thread_id: Only contributions to this task
            k: Maximum number of results
            cursor: Continue where the previous answer ended
            max_tokens: Maximum size of the answer, in tokens
        """
        return cast("ContributionsAnswer", self._do("list_contributions", {"status": status, "thread_id": thread_id, "k": k, "cursor": cursor, "max_tokens": max_tokens}))

    def show_contribution(
        self,
        id: str,
    ) -> Contribution:
        """Show one contribution, with the results of its checks.

        Args:
            id: The contribution's id
        """
        return cast("Contribution", self._do("show_contribution", {"id": id}))

    def accept_contribution(
        self,
        id: str,
        *,
        kind: str = "learning",
        importance: float | None = None,
        pinned: bool = False,
        ttl: str | None = None,
        atomize: bool = False,
        used: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> Contribution:
        """Accept a contribution into the team's memory.

        Args:
            id: The contribution's id
            kind: Kind of memory: decision, preference, workflow, learning, …
            importance: Importance, 0 to 1; by default its confidence
            pinned: Pin it, so that every agent inherits it
            ttl: Lifetime: P30D is 30 days; unlimited by default
            atomize: Divide it into engrams, too: short claims that point at its evidence, or at the memory
            used: Id of an engram that it is based on; at most 12
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Contribution", self._do("accept_contribution", {"id": id, "kind": kind, "importance": importance, "pinned": pinned, "ttl": ttl, "atomize": atomize, "used": used}, idempotency_key))

    def reject_contribution(
        self,
        id: str,
        *,
        reason: str,
        used: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> Contribution:
        """Reject a contribution, and record the reason.

        Args:
            id: The contribution's id
            reason: The reason; its author will read it
            used: Id of an engram that it is based on; at most 12
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Contribution", self._do("reject_contribution", {"id": id, "reason": reason, "used": used}, idempotency_key))

    def withdraw_contribution(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> Contribution:
        """Withdraw a contribution of your own that has not been decided.

        Args:
            id: The contribution's id
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("Contribution", self._do("withdraw_contribution", {"id": id}, idempotency_key))

    def open_run(
        self,
        goal: str,
        *,
        session: str | None = None,
        idempotency_key: str | None = None,
    ) -> RunAnswer:
        """Start a run, a piece of work with a goal, and make it the current one.

        Args:
            goal: The goal of the run
            session: Id of a coding agent's session; asking again returns the same run
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RunAnswer", self._do("open_run", {"goal": goal, "session": session}, idempotency_key))

    def end_run(
        self,
        run_id: str,
        *,
        idempotency_key: str | None = None,
    ) -> RunAnswer:
        """End a run: its agents can no longer do anything, and their tokens, grants and streams end.

        Args:
            run_id: The run's id
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RunAnswer", self._do("end_run", {"run_id": run_id}, idempotency_key))

    def list_runs(
        self,
    ) -> RunsAnswer:
        """List the newest runs, those of coding agents' sessions with their lead."""
        return cast("RunsAnswer", self._do("list_runs", {}))

    def add_agent(
        self,
        name: str | None = None,
        *,
        role: Literal["architect", "director", "manager", "programmer", "tool", "admin"] = "programmer",
        parent: str | None = None,
        client_id: str | None = None,
        session_turns: int = 1,
        idempotency_key: str | None = None,
    ) -> AgentAnswer:
        """Add an agent to the run and print its token.

        Args:
            name: Its name, unique in the run; by default two words, as amber-fox
            role: Its role, which must rank below its parent's; tool is for an admin
            parent: Its parent, whose run it joins; you by default
            client_id: The id its client knows it by; asking again returns the same agent
            session_turns: How many turns' worth it may read in one turn, 1 to 16; more than 1 is for an admin to give
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("AgentAnswer", self._do("add_agent", {"name": name, "role": role, "parent": parent, "client_id": client_id, "session_turns": session_turns}, idempotency_key))

    def add_lead(
        self,
        goal: str,
        *,
        session: str | None = None,
        role: Literal["architect", "director", "manager", "programmer"] | None = None,
        session_turns: int = 1,
        idempotency_key: str | None = None,
    ) -> AgentAnswer:
        """Add the lead of a coding agent's session, in a run of its own, which is never the current one.

        Args:
            goal: The goal of the run
            session: Id of a coding agent's session; asking again returns the same run
            role: Its role; by default the policy's `lead_role`, which it may not exceed
            session_turns: How many turns' worth it may read in one turn, 1 to 16; more than 1 is for an admin to give
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("AgentAnswer", self._do("add_lead", {"goal": goal, "session": session, "role": role, "session_turns": session_turns}, idempotency_key))

    def remove_agent(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> RemovedAnswer:
        """Remove an agent and its descendants: their tokens, grants, sessions and streams end at once.

        Args:
            name: The agent's name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RemovedAnswer", self._do("remove_agent", {"name": name}, idempotency_key))

    def list_agents(
        self,
    ) -> AgentsAnswer:
        """List the agents of the run."""
        return cast("AgentsAnswer", self._do("list_agents", {}))

    def add_schedule(
        self,
        name: str,
        lane: str,
        *,
        cron: str | None = None,
        every: str | None = None,
        at: str | None = None,
        tz: str | None = None,
        catch_up: Literal["one", "all", "none"] = "one",
        overlap: Literal["skip", "queue"] | None = None,
        payload: list[dict[str, Any]] | tuple[dict[str, Any], ...] = (),
        map_pos: dict[str, Any] | UnsetType = UNSET,
        agent_terms: dict[str, Any] | UnsetType = UNSET,
        src_ptr: list[str] | tuple[str, ...] | UnsetType = UNSET,
        flags: dict[str, Any] | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        schema: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> AddedSchedule:
        """Add a schedule, which puts a task into a lane at certain times.

        Args:
            name: The schedule's name
            lane: Queue of its tuples
            cron: Minute, hour, day of month, month, day of week: 0 3 * * *
            every: Interval instead of a cron expression: PT15M
            at: The only time, instead: 2026-12-01T09:00+01:00
            tz: Time zone of the cron expression [default: UTC]
            catch_up: What is put for times that nobody was there for
            overlap: What happens while the previous tuple has not ended [default: skip]
            payload: Steps: {yool, args, after?}
            map_pos: Position in the project
            agent_terms: budget_usd, budget_tokens, max_retries
            src_ptr: Pointers to its sources
            flags: no_cache: use no cached result
            priority: Higher is claimed first; 0 by default
            schema: yool-tuple/v1 or v2
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("AddedSchedule", self._do("add_schedule", {"name": name, "lane": lane, "cron": cron, "every": every, "at": at, "tz": tz, "catch_up": catch_up, "overlap": overlap, "payload": payload, "map_pos": map_pos, "agent_terms": agent_terms, "src_ptr": src_ptr, "flags": flags, "priority": priority, "schema": schema}, idempotency_key))

    def list_schedules(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
    ) -> SchedulesAnswer:
        """List schedules: when each is due next, what it put last, and what was skipped, missed or refused.

        Args:
            limit: Maximum number of schedules
            cursor: Cursor of the previous answer
        """
        return cast("SchedulesAnswer", self._do("list_schedules", {"limit": limit, "cursor": cursor}))

    def show_schedule(
        self,
        name: str,
    ) -> ShownSchedule:
        """Show a schedule with its next five times and the task that it puts.

        Args:
            name: The schedule's name
        """
        return cast("ShownSchedule", self._do("show_schedule", {"name": name}))

    def pause_schedule(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> ScheduleRow:
        """Pause a schedule: it puts nothing until it is resumed.

        Args:
            name: The schedule's name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ScheduleRow", self._do("pause_schedule", {"name": name}, idempotency_key))

    def resume_schedule(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> ScheduleRow:
        """Let a paused schedule go on; nothing is put for the times in between.

        Args:
            name: The schedule's name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ScheduleRow", self._do("resume_schedule", {"name": name}, idempotency_key))

    def remove_schedule(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> RemovedSchedule:
        """Remove a schedule; the tasks that it has put stay.

        Args:
            name: The schedule's name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RemovedSchedule", self._do("remove_schedule", {"name": name}, idempotency_key))

    def run_schedule(
        self,
        name: str,
        *,
        idempotency_key: str | None = None,
    ) -> DispatchAnswer:
        """Put a schedule's task now, even if it is paused; its next time stays as it is.

        Args:
            name: The schedule's name
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DispatchAnswer", self._do("run_schedule", {"name": name}, idempotency_key))

    def inherit(
        self,
        *,
        for_agent: str | None = None,
        scope: SnapshotScope | None = None,
        max_bytes: int = 50000,
        max_items: int = 200,
        idempotency_key: str | None = None,
    ) -> SharedContextSnapshot:
        """Get the team's memory: pinned, important and recent items, within a size.

        Args:
            for_agent: The agent that inherits; you by default
            scope: Which memories to include
            max_bytes: Maximum size of the answer, in bytes
            max_items: Maximum number of items
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("SharedContextSnapshot", self._do("inherit", {"for_agent": for_agent, "scope": scope, "max_bytes": max_bytes, "max_items": max_items}, idempotency_key))

    def show_snapshot(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> SharedContextSnapshot:
        """Show a snapshot again, as it was inherited.

        Args:
            id: The snapshot's id, as `inherit` prints it
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("SharedContextSnapshot", self._do("show_snapshot", {"id": id}, idempotency_key))

    def stats(
        self,
        *,
        over: Literal["run", "project"] = "run",
        bucket: Literal["PT1M", "PT1H", "P1D"] = "PT1H",
        last: int = 24,
    ) -> StatsAnswer:
        """Show figures: tokens, dereferences, messages and engrams, now and over time.

        Args:
            over: Count your run, or the whole project (only for admins and tools they added)
            bucket: Length of each point of the history: PT1M is one minute
            last: Number of points, up to now
        """
        return cast("StatsAnswer", self._do("stats", {"over": over, "bucket": bucket, "last": last}))

    def block_task(
        self,
        id: str,
        *,
        note: str = "",
        after: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> TaskRow:
        """Block a task until others are done (--on), or until someone unblocks it (--why). Your claim on it ends.

        Args:
            id: The task's id, or its first digits
            note: What has to happen first, in words
            after: Ids of tasks or tuples that must be done first
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TaskRow", self._do("block_task", {"id": id, "note": note, "after": after}, idempotency_key))

    def unblock_task(
        self,
        id: str,
        *,
        after: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> TaskRow:
        """Unblock a task: lift the reason, and every dependency that has ended; with --on only these dependencies.

        Args:
            id: The task's id, or its first digits
            after: Tasks or tuples that it is not to wait for any more
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TaskRow", self._do("unblock_task", {"id": id, "after": after}, idempotency_key))

    def give_task(
        self,
        id: str,
        agent: str,
        *,
        note: str = "",
        idempotency_key: str | None = None,
    ) -> TaskRow:
        """Give a task to another agent, or to no one. The claim of anybody else on it ends.

        Args:
            id: The task's id, or its first digits
            agent: The agent that is to do it; `nobody` leaves it to anybody
            note: A note for whoever reads the task later
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TaskRow", self._do("give_task", {"id": id, "agent": agent, "note": note}, idempotency_key))

    def release_tasks(
        self,
        id: str | None = None,
        *,
        note: str = "",
        all: bool = False,
        fence: str | None = None,
        idempotency_key: str | None = None,
    ) -> ReleasedTasks:
        """Give back a task that you do not finish, with a note for the next; by default all that you have claimed.

        Args:
            id: The task's id; by default all you have claimed
            note: A note for whoever reads the task later
            all: Also what your descendants have claimed
            fence: Only if it still is this claim
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ReleasedTasks", self._do("release_tasks", {"id": id, "note": note, "all": all, "fence": fence}, idempotency_key))

    def cancel_task(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> CancelAnswer:
        """End a task that is not to be done any more. What waits for it stays blocked until it is unblocked.

        Args:
            id: The task's id, or its first digits
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("CancelAnswer", self._do("cancel_task", {"id": id}, idempotency_key))

    def add_task(
        self,
        title: str,
        *,
        for_agent: str | None = None,
        after: list[str] | tuple[str, ...] = (),
        priority: int = 0,
        due: str | None = None,
        at: list[str] | tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> TaskRow:
        """Add a task for an agent or a person, with what it is about and what must be done first.

        Args:
            title: What is to be done
            for_agent: Who is to do it; anybody by default
            after: Ids of tasks or tuples that must be done first
            priority: Tasks with a higher number come first
            due: When it is due: a time, or P2D from now
            at: What it is about: path:10-20 at HEAD, or a pointer's ref
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TaskRow", self._do("add_task", {"title": title, "for_agent": for_agent, "after": after, "priority": priority, "due": due, "at": at}, idempotency_key))

    def list_tasks(
        self,
        *,
        mine: bool = False,
        state: Literal["ready", "claimed", "blocked", "done", "cancelled"] | None = None,
        all: bool = False,
        limit: int = 100,
    ) -> TasksAnswer:
        """List the project's tasks: first the claimed and the ready ones, then the blocked ones.

        Args:
            mine: Only those that are for you or that you have claimed
            state: Only tasks in this state
            all: Also those that are done or cancelled
            limit: Maximum number of tasks
        """
        return cast("TasksAnswer", self._do("list_tasks", {"mine": mine, "state": state, "all": all, "limit": limit}))

    def ready_tasks(
        self,
        *,
        limit: int = 20,
    ) -> TasksAnswer:
        """List the tasks that nothing blocks and that are for you or for anybody, and those that you have claimed.

        Args:
            limit: Maximum number of tasks
        """
        return cast("TasksAnswer", self._do("ready_tasks", {"limit": limit}))

    def claim_task(
        self,
        id: str | None = None,
        *,
        process: str | None = None,
        idempotency_key: str | None = None,
    ) -> ClaimedTask:
        """Claim a task, by default the first that is ready for you or for anybody, so that no other does it too.

        Args:
            id: The task's id; by default the first ready one
            process: The process you work in, as <host>/<pid>.<start time>; what you reserve or claim ends with it
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("ClaimedTask", self._do("claim_task", {"id": id, "process": process}, idempotency_key))

    def show_task(
        self,
        id: str,
    ) -> TaskAnswer:
        """Show a task: its state, what blocks it, who did what with it, and the evidence that it is done.

        Args:
            id: The task's id, or its first digits
        """
        return cast("TaskAnswer", self._do("show_task", {"id": id}))

    def finish_task(
        self,
        id: str,
        *,
        evidence: list[str] | tuple[str, ...] = (),
        note: str = "",
        fence: str | None = None,
        idempotency_key: str | None = None,
    ) -> FinishedTask:
        """End a task that is done, with the evidence: lines, a commit, a pointer, or a receipt that ended with 0.

        Args:
            id: The task's id, or its first digits
            evidence: path:10-20, HEAD or a receipt
            note: A note for whoever reads the task later
            fence: The claim that this ends, as it was answered
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("FinishedTask", self._do("finish_task", {"id": id, "evidence": evidence, "note": note, "fence": fence}, idempotency_key))

    def agent_token(
        self,
        name: str,
        *,
        expires_in: str | None = None,
        idempotency_key: str | None = None,
    ) -> AgentAnswer:
        """Print another token for an agent.

        Args:
            name: The agent's name
            expires_in: Lifetime of the token: P7D is 7 days; by default, and at most, what the policy says
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("AgentAnswer", self._do("agent_token", {"name": name, "expires_in": expires_in}, idempotency_key))

    def list_tokens(
        self,
        *,
        cursor: str | None = None,
    ) -> TokensAnswer:
        """List the tokens that are live: yours and those of your descendants; for an admin, all of the project.

        Args:
            cursor: Continue after this token
        """
        return cast("TokensAnswer", self._do("list_tokens", {"cursor": cursor}))

    def revoke_tokens(
        self,
        id: str | None = None,
        *,
        agent: str | None = None,
        all: bool = False,
        idempotency_key: str | None = None,
    ) -> RevokedAnswer:
        """Revoke a token by its id, all tokens of an agent and its descendants, or all tokens of the project.

        Args:
            id: The id of one token
            agent: All tokens of this agent and its descendants
            all: All tokens of the project; for an admin
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("RevokedAnswer", self._do("revoke_tokens", {"id": id, "agent": agent, "all": all}, idempotency_key))

    def tuple_dispatch(
        self,
        lane: str,
        *,
        payload: list[dict[str, Any]] | tuple[dict[str, Any], ...] = (),
        delay: str | UnsetType = UNSET,
        map_pos: dict[str, Any] | UnsetType = UNSET,
        agent_terms: dict[str, Any] | UnsetType = UNSET,
        src_ptr: list[str] | tuple[str, ...] | UnsetType = UNSET,
        parent_id: str | UnsetType | None = UNSET,
        flags: dict[str, Any] | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        after: list[str] | tuple[str, ...] | UnsetType = UNSET,
        schema: str | UnsetType = UNSET,
        id: str | UnsetType = UNSET,
        authority: dict[str, Any] | UnsetType = UNSET,
        receipts: list[str] | tuple[str, ...] | UnsetType = UNSET,
        created_at: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> DispatchAnswer:
        """Submit a task (a tuple) and return at once.

        Args:
            lane: Queue it waits in
            payload: Steps: {yool, args, after?}
            delay: How long it waits before it may be claimed: PT10M; sets agent_terms.not_before_iso
            map_pos: Its position in the project
            agent_terms: budget_usd, budget_tokens, deadline_iso, max_retries
            src_ptr: Pointers to its sources
            parent_id: Parent tuple; shares its spending
            flags: no_cache: use no cached result
            priority: Higher is claimed first; 0 by default
            after: Ids of tuples that must be done first
            schema: yool-tuple/v1 or v2
            id: Its id; leave out to have it computed
            authority: Set for you; only sent with an id
            receipts: Empty for a new tuple
            created_at: Time of creation; now by default
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DispatchAnswer", self._do("tuple_dispatch", {"lane": lane, "payload": payload, "delay": delay, "map_pos": map_pos, "agent_terms": agent_terms, "src_ptr": src_ptr, "parent_id": parent_id, "flags": flags, "priority": priority, "after": after, "schema": schema, "id": id, "authority": authority, "receipts": receipts, "created_at": created_at}, idempotency_key))

    def tuple_out(
        self,
        lane: str,
        *,
        payload: list[dict[str, Any]] | tuple[dict[str, Any], ...] = (),
        delay: str | UnsetType = UNSET,
        map_pos: dict[str, Any] | UnsetType = UNSET,
        agent_terms: dict[str, Any] | UnsetType = UNSET,
        src_ptr: list[str] | tuple[str, ...] | UnsetType = UNSET,
        parent_id: str | UnsetType | None = UNSET,
        flags: dict[str, Any] | UnsetType = UNSET,
        priority: int | UnsetType = UNSET,
        after: list[str] | tuple[str, ...] | UnsetType = UNSET,
        schema: str | UnsetType = UNSET,
        id: str | UnsetType = UNSET,
        authority: dict[str, Any] | UnsetType = UNSET,
        receipts: list[str] | tuple[str, ...] | UnsetType = UNSET,
        created_at: str | UnsetType = UNSET,
        block: float | None = None,
        idempotency_key: str | None = None,
    ) -> DispatchAnswer:
        """Put a tuple (a task) into its lane (a queue), for a worker to run.

        Args:
            lane: Queue it waits in
            payload: Steps: {yool, args, after?}
            delay: How long it waits before it may be claimed: PT10M; sets agent_terms.not_before_iso
            map_pos: Its position in the project
            agent_terms: budget_usd, budget_tokens, deadline_iso, max_retries
            src_ptr: Pointers to its sources
            parent_id: Parent tuple; shares its spending
            flags: no_cache: use no cached result
            priority: Higher is claimed first; 0 by default
            after: Ids of tuples that must be done first
            schema: yool-tuple/v1 or v2
            id: Its id; leave out to have it computed
            authority: Set for you; only sent with an id
            receipts: Empty for a new tuple
            created_at: Time of creation; now by default
            block: Seconds to wait while the lane is full
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DispatchAnswer", self._do("tuple_out", {"lane": lane, "payload": payload, "delay": delay, "map_pos": map_pos, "agent_terms": agent_terms, "src_ptr": src_ptr, "parent_id": parent_id, "flags": flags, "priority": priority, "after": after, "schema": schema, "id": id, "authority": authority, "receipts": receipts, "created_at": created_at, "block": block}, idempotency_key))

    def tuple_rd(
        self,
        *,
        lane: str | None = None,
        state: str | None = None,
        pattern: dict[str, Any] | UnsetType = UNSET,
        timeout: float = 0.0,
    ) -> TupleAnswer:
        """Show the oldest tuple that matches a pattern, and leave it in its lane.

        Args:
            lane: Only tuples of this lane
            state: Only tuples in this state: waiting, blocked, claimed, done, dead, cancelled
            pattern: Fields as created, by path: a value, or {eq, ne, prefix, lt, le, gt, ge, exists: …}
            timeout: Seconds to wait for a match
        """
        return cast("TupleAnswer", self._do("tuple_rd", {"lane": lane, "state": state, "pattern": pattern, "timeout": timeout}))

    def tuple_in(
        self,
        *,
        lane: str | None = None,
        state: str | None = None,
        pattern: dict[str, Any] | UnsetType = UNSET,
        timeout: float = 0.0,
        idempotency_key: str | None = None,
    ) -> TupleAnswer:
        """Take one waiting tuple out of its lane for good.

        Args:
            lane: Only tuples of this lane
            state: Only tuples in this state: waiting, blocked, claimed, done, dead, cancelled
            pattern: Fields as created, by path: a value, or {eq, ne, prefix, lt, le, gt, ge, exists: …}
            timeout: Seconds to wait for a match
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TupleAnswer", self._do("tuple_in", {"lane": lane, "state": state, "pattern": pattern, "timeout": timeout}, idempotency_key))

    def tuple_observe(
        self,
        id: str,
    ) -> TupleStatus:
        """Show a task's status.

        Args:
            id: The tuple's id, or its first digits
        """
        return cast("TupleStatus", self._do("tuple_observe", {"id": id}))

    def list_dead(
        self,
        *,
        lane: str | None = None,
        all: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> DeadLetters:
        """List tasks that were given up: retried too often, expired, or over budget.

        Args:
            lane: Only tuples of this lane
            all: Include those that were put again
            limit: Maximum number of dead letters
            cursor: Cursor of the previous answer
        """
        return cast("DeadLetters", self._do("list_dead", {"lane": lane, "all": all, "limit": limit, "cursor": cursor}))

    def tuple_again(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> DispatchAnswer:
        """Submit a task that was given up once more, as a new tuple.

        Args:
            id: The tuple's id, or its first digits
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("DispatchAnswer", self._do("tuple_again", {"id": id}, idempotency_key))

    def cancel_tuple(
        self,
        id: str,
        *,
        idempotency_key: str | None = None,
    ) -> CancelAnswer:
        """Cancel a task that is waiting or running, or a batch or a node of one with everything below it.

        Args:
            id: The tuple's id, or its first digits; ID/0.3 for a node of a batch
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("CancelAnswer", self._do("cancel_tuple", {"id": id}, idempotency_key))

    def close_turn(
        self,
        name: str,
        *,
        why: Literal["prompt", "stop", "subagent_stop"] = "stop",
        idempotency_key: str | None = None,
    ) -> TurnAnswer:
        """Close an agent's turn; a turn in which nothing was read or put stays open.

        Args:
            name: The agent: one of your descendants
            why: What ended the turn, as the coding agent reported it
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("TurnAnswer", self._do("close_turn", {"name": name, "why": why}, idempotency_key))

    def team_budget(
        self,
    ) -> TeamBudget:
        """Show what the run's agents have read together, and what they may still read; of an agent, also its own turn."""
        return cast("TeamBudget", self._do("team_budget", {}))

    def verify(
        self,
        *,
        repair: bool = False,
        idempotency_key: str | None = None,
    ) -> VerifyAnswer:
        """Check every file of the project: journals, stored output, and all copies made from them.

        Args:
            repair: Make copies that differ again, from the journals and from git
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("VerifyAnswer", self._do("verify", {"repair": repair}, idempotency_key))

    def why(
        self,
        id: str,
        *,
        max_tokens: int = 1500,
        idempotency_key: str | None = None,
    ) -> WhyAnswer:
        """Show why a task failed or waits: the failed step, the end of its output, and what to do next.

        Args:
            id: The id of a tuple or receipt, or its first digits
            max_tokens: Maximum size of the answer in tokens; the output's end is kept
            idempotency_key: A repeated call with the same key returns the first answer
        """
        return cast("WhyAnswer", self._do("why", {"id": id, "max_tokens": max_tokens}, idempotency_key))

    def work_board(
        self,
        *,
        limit: int = 50,
    ) -> BoardAnswer:
        """Show the work board: lanes, running, finished and given-up tasks, and their cost.

        Args:
            limit: Maximum number of tuples of each kind
        """
        return cast("BoardAnswer", self._do("work_board", {"limit": limit}))

    def list_work(
        self,
    ) -> WorkRunsAnswer:
        """List runs that have tasks: how many are done, cached, given up or unfinished, and their cost."""
        return cast("WorkRunsAnswer", self._do("list_work", {}))
