"""Visibility by role: what a role may not see looks to it as if it did not exist.  # EB-36"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engrambus.errors import EngramBusError, PolicyInvalid
from engrambus.gateway import Credential
from engrambus.gateway.events import ResumePoint, events_after
from engrambus.knowledge.engrams import KINDS, Engram
from engrambus.operations.engram_about import EngramAbout
from engrambus.policy import read_policy
from engrambus.policy.visibility import KINDS as POLICY_KINDS
from engrambus.policy.visibility import RoleVisibility
from engrambus.testing import GatewayClient, Harness, expect_refusal
from tests.harness.stores import MemoryHarness, SqliteHarness
from tests.limits.team import Team
from tests.projects import commit_files, git

SHA = "a" * 40
RECEIPT = "sha256:" + "0" * 64
FOLDERS = ("src", "secrets", "docs")
AMPLE = {"repo": 1000, "tokens": 1_000_000}
PATHS = tuple(f"{folder}/{name}.py" for folder in FOLDERS for name in ("one", "two"))


@contextmanager
def open_harness(backend: str) -> Iterator[Harness]:
    """A new project on a back end."""
    if backend == "memory":
        with closing(MemoryHarness()) as memory:
            yield memory
    else:
        with tempfile.TemporaryDirectory() as folder, closing(SqliteHarness(Path(folder) / "catalog")) as sqlite:
            yield sqlite


class Draft(NamedTuple):
    """An engram to put."""

    kind: str
    scope: str
    paths: tuple[str, ...]


class Rule(NamedTuple):
    """A rule of visibility, as the test understands it."""

    kinds: tuple[str, ...] | None
    scopes: tuple[str, ...] | None
    shown: tuple[str, ...]
    hidden: tuple[str, ...]

    def policy(self) -> dict[str, Any]:
        """The rule as the policy file writes it."""
        rule: dict[str, Any] = {
            "paths": [*(f"{name}/*" for name in self.shown), *(f"!{name}/*" for name in self.hidden)]
        }
        if self.kinds is not None:
            rule["kinds"] = list(self.kinds)
        if self.scopes is not None:
            rule["scopes"] = list(self.scopes)
        return rule

    def sees_path(self, path: str) -> bool:
        folder = path.partition("/")[0]
        return folder not in self.hidden and (not self.shown or folder in self.shown)

    def sees(self, draft: Draft) -> bool:
        return (
            (self.kinds is None or draft.kind in self.kinds)
            and (self.scopes is None or draft.scope in self.scopes)
            and all(map(self.sees_path, draft.paths))
        )


def subsets(values: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), unique=True).map(tuple)


DRAFTS = st.lists(
    st.builds(
        Draft,
        kind=st.sampled_from(["fact", "risk", "constraint", "todo"]),
        scope=st.sampled_from(["run", "project"]),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=2, unique=True).map(tuple),
    ),
    min_size=1,
    max_size=14,
)
RULES = st.builds(
    Rule,
    kinds=st.none() | subsets(("fact", "risk", "constraint", "todo")),
    scopes=st.none() | subsets(("run", "project")),
    shown=subsets(FOLDERS),
    hidden=subsets(FOLDERS),
)


class Scene:
    """Engrams of a team, and a programmer who sees only some of them."""

    def __init__(self, harness: Harness, drafts: list[Draft], rule: Rule) -> None:
        self.harness = harness
        self.client = GatewayClient(harness)
        self.rule = rule
        self.boss = self.client.add_agent("boss", "manager")
        self.ann = self.client.add_agent("ann", "programmer", self.boss)
        # Briefs are recorded before the rule holds: what they say must not come out afterwards.
        self.put = [self._put(number, draft) for number, draft in enumerate(drafts)]
        self.client.call("brief", self.boss, role="programmer")
        self.client.call("apply_policy", policy={"visibility": {"programmer": rule.policy()}, "deref": AMPLE})
        self.visible = {engram.id for draft, engram in self.put if rule.sees(draft)}
        self.hidden = [(number, engram) for number, (draft, engram) in enumerate(self.put) if not rule.sees(draft)]

    def _put(self, number: int, draft: Draft) -> tuple[Draft, Engram]:
        refs = [f"test:{path}::it_works@{RECEIPT}" for path in draft.paths]
        claim = f"There is also marker{number}end, a zebra."
        fields = {"kind": draft.kind, "scope": draft.scope}
        return draft, self.client.put(claim, self.boss, refs=refs, **fields)

    def assert_nothing_hidden(self, answer: object) -> None:
        """No id and no word of a hidden engram is in the answer."""
        text = msgspec.json.encode(answer).decode()
        for number, engram in self.hidden:
            assert engram.id not in text
            assert f"marker{number}end" not in text

    def read(self, operation: str, **fields: Any) -> Any:
        """Call a reading operation as the programmer."""
        answer = self.client.call(operation, self.ann, **fields)
        self.assert_nothing_hidden(answer)
        return answer


@settings(max_examples=25)
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@given(drafts=DRAFTS, rule=RULES)
def test_no_reading_operation_returns_what_a_role_may_not_see(backend: str, drafts: list[Draft], rule: Rule) -> None:
    with open_harness(backend) as harness:
        scene = Scene(harness, drafts, rule)
        found = scene.read("query_engrams", q="zebra", k=100).engrams
        assert {engram.id for engram in found} == scene.visible
        # Hidden rows are left out before the best are taken, and weigh as before: the order stays the same.
        everything = scene.client.query("zebra marker1end", scene.boss, k=100).engrams
        ranked = scene.read("query_engrams", q="zebra marker1end", k=100).engrams
        assert [engram.id for engram in ranked] == [engram.id for engram in everything if engram.id in scene.visible]
        assert {engram.id for engram in scene.read("query_engrams", k=100).engrams} == scene.visible
        _read_pages(scene)
        for kind in ("fact", "risk"):
            scene.read("query_engrams", kind=kind, k=100)
            scene.read("query_engrams", q="zebra", kind=kind)
            scene.read("feed", kind=kind)
        for scope in ("run", "project"):
            scene.read("query_engrams", q="zebra", scope=scope)
        rows = scene.read("feed", k=200).rows
        assert {row.engram.id for row in rows} == scene.visible
        scene.read("feed", q="zebra", role="manager")
        scene.read("brief")
        scene.read("brief", since=1)
        scene.read("brief", role="manager")
        scene.read("list_briefs", role="programmer")
        scene.read("list_briefs", role="programmer", version=1)
        scene.read("list_briefs", role="programmer", since=1)
        scene.read("list_briefs", role="programmer", version=1, since=1)
        scene.read("inherit", scope={"include_atoms": True})
        scene.read("stats")
        _read_events(scene)


def _read_pages(scene: Scene) -> None:
    ids: list[str] = []
    cursor = None
    while True:
        page = scene.read("query_engrams", k=2, **({"cursor": cursor} if cursor else {}))
        ids += [engram.id for engram in page.engrams]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(ids) == sorted(scene.visible)


def _read_events(scene: Scene) -> None:
    gateway = scene.harness.gateway
    for _, engram in scene.put:
        scene.client.call("confirm_engram", scene.boss, id=engram.id)
        scene.client.call("pin_engram", id=engram.id)
    page = events_after(gateway.event_log, ResumePoint(0), 1000, gateway.event_filter(scene.ann).matches)
    scene.assert_nothing_hidden([event.to_wire() for event in page.events])
    told = {event.data["engram"] for event in page.events if event.type == "less.engram.put"}
    assert told == scene.visible


@settings(max_examples=15)
@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@given(drafts=DRAFTS, rule=RULES)
def test_what_is_hidden_cannot_be_named_either(backend: str, drafts: list[Draft], rule: Rule) -> None:
    with open_harness(backend) as harness:
        scene = Scene(harness, drafts, rule)
        absent = scene.client.try_call("get_engram", scene.ann, id="00000000000000000000000001")
        for _, engram in scene.hidden:
            assert scene.client.try_call("get_engram", scene.ann, id=engram.id) == absent
            for operation in ("feed", "confirm_engram"):
                with expect_refusal("ENGRAM_NOT_FOUND"):
                    scene.client.call(operation, scene.ann, id=engram.id)
        for draft, engram in scene.put:
            if rule.sees(draft):
                assert scene.client.call("get_engram", scene.ann, id=engram.id) == engram
            if draft.scope == "project" and all(map(rule.sees_path, draft.paths)) and not rule.sees(draft):
                # Repeating a hidden claim neither confirms it nor shows it: it is put as if it were the first.
                again = scene.client.put(
                    engram.claim, scene.ann, refs=[pointer.ref for pointer in engram.pointers], kind=draft.kind
                )
                assert again.id != engram.id
        for path in PATHS:
            ref = f"repo:{path}#L1-L2@{SHA}"
            if rule.sees_path(path):
                continue
            with expect_refusal("FILE_NOT_FOUND"):
                scene.client.deref(scene.ann, ref)
            with expect_refusal("FILE_NOT_FOUND"):
                scene.client.put("Something is there.", scene.ann, refs=[ref])


def test_the_default_hides_nothing_and_wraps_nothing(team: Team) -> None:
    policy = read_policy({})
    assert all(policy.visible_to(role) is None for role in ("programmer", "manager", "tool", "admin"))
    engram = team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()])
    assert team.client.call("get_engram", team.paul, id=engram.id) == engram


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    team = Team(tmp_path)
    yield team
    team.gateway.close()


def hide(team: Team, *patterns: str) -> None:
    team.client.call("apply_policy", policy={"visibility": {"programmer": {"paths": list(patterns)}}})


class TestFiles:
    """Paths of a real repository."""

    @pytest.fixture
    def sha(self, team: Team) -> str:
        files = {
            "secrets/keys.md": "# Keys\n\nThe vault opens with the purple elephant.\n",
            "secrets/notes.py": "def the_hidden_function_of_the_vault():\n    return open_the_hidden_vault_now()\n",
            "src/seen.py": "def the_function_that_everybody_may_see():\n    return look_at_this_function_now()\n",
        }
        return commit_files(team.repository.path, files)

    def same_as_absent(self, team: Team, operation: str, field: str, hidden: Any, absent: Any, **fields: Any) -> None:
        """The refusal of a hidden thing is the refusal of an absent one, word for word."""
        seen = [team.client.try_call(operation, team.paul, **{field: value}, **fields) for value in (hidden, absent)]
        assert seen[0][0] != "ok"
        assert seen[0][0] == seen[1][0]
        assert seen[0][1] == seen[1][1].replace(b"nowhere", b"secrets").replace(b"absent", b"keys")

    @pytest.mark.parametrize(
        "ref",
        [
            "repo:{}/keys.md#L1-L2@{}",
            "repo:{}/keys.md@{}",
            "artifact:{}/keys.md#sec=Keys@{}",
            "artifact:{}/keys.md@{}",
        ],
    )
    def test_a_hidden_path_is_refused_like_an_absent_one(self, team: Team, sha: str, ref: str) -> None:
        hide(team, "!secrets/*")
        self.same_as_absent(team, "deref_pointer", "pointer", ref.format("secrets", sha), ref.format("nowhere", sha))
        fields = {"claim": "The vault is open."}
        hidden, absent = (
            [{"type": ref.partition(":")[0], "ref": ref.format(name, sha)}] for name in ("secrets", "nowhere")
        )
        self.same_as_absent(team, "put_engram", "pointers", hidden, absent, **fields)

    def test_a_document_is_not_found_by_its_bare_name(self, team: Team, sha: str) -> None:
        team.client.deref(team.paul, f"artifact:keys.md@{sha}")
        engram = team.client.put("The keys are written down.", refs=[f"artifact:keys.md@{sha}"])
        hide(team, "!secrets/*")
        self.same_as_absent(team, "deref_pointer", "pointer", f"artifact:keys.md@{sha}", f"artifact:absent.md@{sha}")
        with expect_refusal("ENGRAM_NOT_FOUND"):
            team.client.call("get_engram", team.paul, id=engram.id)
        assert team.client.call("get_engram", team.mia, id=engram.id) == engram

    def test_a_hidden_engram_is_neither_used_nor_named_by_its_users(self, team: Team, sha: str) -> None:  # EB-35
        hidden = team.client.put("The vault is open.", refs=[f"repo:secrets/notes.py@{sha}"])
        seen = team.client.put("This function may be seen.", refs=[f"repo:src/seen.py@{sha}"])
        decision = team.client.put(
            "We keep the vault.", kind="decision", refs=[f"repo:src/seen.py@{sha}"], used=[hidden.id, seen.id]
        )
        team.client.put("Nobody sees this decision.", refs=[f"repo:secrets/keys.md@{sha}"], used=[seen.id])
        hide(team, "!secrets/*")

        def about(caller: Credential, engram_id: str) -> EngramAbout:
            known: EngramAbout = team.client.call("show_engram", caller, id=engram_id).about[engram_id]
            return known

        assert about(team.mia, decision.id).used == [hidden.id, seen.id]
        assert about(team.paul, decision.id).used == [seen.id]
        uses = [about(caller, seen.id).used_by for caller in (team.mia, team.paul)]
        assert [use.count for use in uses if use is not None] == [2, 1]
        fields = {"claim": "It rests on the vault.", "at": ["src/parser.py:1-2"]}
        with expect_refusal("ENGRAM_NOT_FOUND", "used[0]"):
            team.client.call("put_engram", team.paul, used=[hidden.id], **fields)

    def test_a_hidden_folder_is_no_folder(self, team: Team, sha: str) -> None:
        hide(team, "!secrets/*")
        with expect_refusal("FILE_NOT_FOUND"):
            team.client.deref(team.paul, f"repo:secrets@{sha}")

    def test_a_change_of_a_hidden_file_is_hidden(self, team: Team, sha: str) -> None:
        hide(team, "!secrets/*")
        ref = "diff:{}/keys.md@{}..{}"
        hidden, absent = (ref.format(name, team.sha, sha) for name in ("secrets", "nowhere"))
        self.same_as_absent(team, "deref_pointer", "pointer", hidden, absent)

    def test_a_diff_of_a_renamed_file_shows_no_hidden_path(self, team: Team, sha: str) -> None:
        git(team.repository.path, "mv", "secrets/keys.md", "docs/keys.md")
        commit = commit_files(team.repository.path, {})
        ref = f"diff:docs/keys.md@{sha}..{commit}"
        assert "secrets/keys.md" in team.client.call("deref_pointer", team.mia, pointer=ref).excerpt
        hide(team, "!secrets/*")
        with expect_refusal("FILE_NOT_FOUND"):
            team.client.deref(team.paul, ref)

    def test_pasted_text_leads_to_no_hidden_file(self, team: Team, sha: str) -> None:
        text = "def the_hidden_function_of_the_vault():\n    return open_the_hidden_vault_now()\n"
        assert team.client.call("anchor_text", team.paul, text=text, revision=sha).found
        hide(team, "!secrets/*")
        answer = team.client.call("anchor_text", team.paul, text=text, revision=sha)
        assert (answer.found, answer.candidates, answer.matched_lines) == (False, [], 0)
        by_path = team.client.call("anchor_text", team.paul, text=text, revision=sha, path="secrets/notes.py")
        assert by_path == answer
        refusal = team.refusal("send_message", team.paul, text=f"ROLE: programmer\nOUTPUT:\n  summary: |\n    {text}")
        assert "secrets" not in str(refusal.problem())
        assert team.client.call("anchor_text", team.mia, text=text, revision=sha).found

    def test_only_shown_paths_are_seen(self, team: Team, sha: str) -> None:
        hide(team, "src/*", "!src/parser.py")
        team.client.deref(team.paul, f"repo:src/seen.py@{sha}")
        for path in ("src/parser.py", "docs/design.md"):
            with expect_refusal("FILE_NOT_FOUND"):
                team.client.deref(team.paul, f"repo:{path}@{sha}")

    def test_a_grant_shows_no_hidden_path(self, team: Team, sha: str) -> None:
        hide(team, "!secrets/*")
        ref = f"repo:secrets/keys.md#L1-L2@{sha}"
        team.client.call("issue_grant", team.mia, child_id="paul", pointer=ref)
        with expect_refusal("FILE_NOT_FOUND"):
            team.client.deref(team.paul, ref)

    def test_memory_about_hidden_paths_is_hidden(self, team: Team, sha: str) -> None:
        kept = team.client.call(
            "keep_episode", text="The vault opens with a purple elephant.", at=["secrets/keys.md:3"], pinned=True
        )
        other = team.client.call(
            "keep_episode", text="The parser trusts a green giraffe.", at=["src/parser.py:1"], pinned=True
        )
        hide(team, "!secrets/*")
        text = msgspec.json.encode(team.client.call("inherit", team.paul)).decode()
        assert "giraffe" in text
        assert "elephant" not in text
        with expect_refusal("EPISODE_NOT_FOUND"):
            team.client.deref(team.paul, kept.ref)
        team.client.deref(team.paul, other.ref)
        question = {
            "query": "elephant giraffe",
            "store_paths": [".catalog/sam/episodes.jsonl"],
            "budget": {"max_excerpt_tokens": 400},
        }
        package = msgspec.json.encode(team.client.call("memory_read", team.paul, **question)).decode()
        assert "green giraffe" in package
        assert "purple elephant" not in package
        assert kept.memory_id not in package

    def test_a_memory_store_at_a_hidden_path_is_not_there(self, team: Team, sha: str) -> None:
        store = team.repository.path / "secrets" / "store.jsonl"
        store.write_text('{"memory_id": "m1", "ts_utc": "2026-01-01T00:00:00Z", "text": "elephant"}\n')
        hide(team, "!secrets/*")
        question = {"query": "elephant", "budget": {"max_excerpt_tokens": 400}}
        for path in ("secrets/store.jsonl", "src/../secrets/store.jsonl"):
            with expect_refusal("MEMORY_STORE_NOT_FOUND"):
                team.client.call("memory_read", team.paul, store_paths=[path], **question)


def test_a_parent_may_not_promote_what_it_does_not_see(team: Team) -> None:
    engram = team.client.put("The parser trusts its input.", team.paul, refs=[team.lines()], scope="run", kind="risk")
    team.client.call("apply_policy", policy={"visibility": {"manager": {"kinds": ["fact"]}}})
    with expect_refusal("ENGRAM_NOT_FOUND"):
        team.client.call("promote_engram", team.mia, id=engram.id)


def test_an_id_taken_by_a_hidden_engram_stays_taken(team: Team) -> None:
    chosen = "01K7Z3V5QX0000000000000000"
    team.client.put("The parser trusts its input.", refs=[team.lines()], kind="risk", id=chosen)
    team.client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["fact"]}}})
    with expect_refusal("ID_TAKEN"):
        team.client.put("Another claim.", team.paul, refs=[team.lines()], id=chosen)


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({"admin": {}}, "visibility.admin"),
        ({"intern": {}}, "visibility"),
        ({"tool": {"kinds": ["secret"]}}, "visibility.tool.kinds"),
        ({"tool": {"scopes": ["moon"]}}, "visibility.tool.scopes"),
        ({"tool": {"paths": ["/etc/*"]}}, "visibility.tool.paths"),
        ({"tool": {"paths": ["!"]}}, "visibility.tool.paths"),
        ({"tool": {"pathes": []}}, "policy.yaml"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_field(rule: Any, field: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        read_policy({"visibility": rule})
    assert caught.value.field == field


def test_the_kinds_of_a_rule_are_those_of_engrams() -> None:
    assert set(POLICY_KINDS) == set(KINDS)


@pytest.mark.parametrize(
    ("paths", "path", "seen"),
    [
        ((), "a.py", True),
        (("src/*",), "src/a/b.py", True),
        (("src/*",), "srcs/a.py", False),
        (("src/*", "docs/*"), "docs/a.md", True),
        (("!secrets/*",), "secrets/a", False),
        (("!secrets/*",), "secrets", False),
        (("!secrets/*",), "src/secrets/a", True),
        (("!*/secrets/*",), "src/secrets/a", False),
        (("src/*", "!src/private.py"), "src/private.py", False),
        (("!*.key",), "deep/down/a.key", False),
    ],
)
def test_patterns_show_and_hide_paths(paths: tuple[str, ...], path: str, seen: bool) -> None:
    assert RoleVisibility(paths=paths).sees_path(path) is seen


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_the_risk_of_a_contradiction_is_hidden_with_either_of_its_claims(backend: str) -> None:  # EB-24 EB-36
    with open_harness(backend) as harness:
        client = GatewayClient(harness)
        boss = client.add_agent("boss", "manager")
        ann = client.add_agent("ann", "programmer", boss)
        client.put("The retry limit is 3.", boss, kind="constraint", scope="project")
        client.put("The retry limit is 5.", boss, kind="decision", scope="project")
        risks = client.query("retry", ann, k=10, kind="risk").engrams
        assert ["retry limit is 3" in risk.claim for risk in risks] == [True]
        client.call("apply_policy", policy={"visibility": {"programmer": {"kinds": ["decision", "risk"]}}})
        assert [engram.kind for engram in client.query("retry", ann, k=10).engrams] == ["decision"]
        with pytest.raises(EngramBusError) as refusal:
            client.call("get_engram", ann, id=risks[0].id)
        assert refusal.value.code == "ENGRAM_NOT_FOUND"
