"""Parsing a message: valid texts, lenient spellings, and the refusal of each error.  # EB-16 EB-17"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engrambus.errors import EngramBusError
from engrambus.evidence.pointers import Pointer
from engrambus.knowledge.messages import (
    ChildBudgets,
    MessageKind,
    message_sections,
    parse_message,
    print_message,
)
from engrambus.knowledge.messages.source import MAX_MESSAGE_BYTES
from engrambus.knowledge.messages.values import Output
from tests.messages.samples import (
    LEAST,
    PUBLISHED_CHILD,
    PUBLISHED_PARENT,
    REF,
    SHA,
    YEAR_US,
    completer,
    engram,
    parse,
    parse_child,
    parse_parent,
    refusal,
)

POINTER = Pointer(type="repo", ref=REF)
ROOT = Path(__file__).resolve().parents[2]


class TestPublished:
    def test_the_published_child_message_is_parsed(self) -> None:
        message = parse_child(PUBLISHED_CHILD)
        assert (message.role, message.task_status) == ("programmer", "in_progress")
        (engram,) = message.engrams
        assert (engram.kind, engram.confidence, engram.ttl, engram.scope) == ("risk", 0.72, "P7D", "project")
        assert engram.claim.startswith("Potential contradiction")
        assert [pointer.type for pointer in engram.pointers] == ["artifact", "repo"]
        assert message.pointer_pack[0].ref.startswith("repo:services/gateway/routes/completions.py#L900-L1060@")
        assert message.deref_requests[0].reason == "Need to confirm reservation atomicity behavior."
        assert message.deref_requests[0].intended_use is None
        assert message.output.next == "Await grant or alternative pointers."

    def test_the_published_parent_message_is_parsed(self) -> None:
        message = parse_parent(PUBLISHED_PARENT)
        assert message.role == "manager"
        assert len(message.shared_brief_micro) == 2
        assert message.budgets == ChildBudgets(max_engrams=10, max_repo_spans=3, max_sam_items=2, max_inline_tokens=800)
        assert (message.grants[0].budget_token, message.grants[0].cap_tokens) == ("EpIBCigKBWNoaWxk", 500)
        assert message.target_pointer_pack[0].type == "artifact"
        assert message.instructions == ("Confirm atomicity + idempotency; emit 3-5 Engrams max; no inline code.",)

    def test_the_examples_of_the_documentation_are_messages(self) -> None:
        page = (ROOT / "docs" / "messages.md").read_text("utf-8")
        examples = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        kinds: list[MessageKind] = ["child", "parent", "parent", "child"]
        for example, kind in zip(examples, kinds, strict=True):
            message = parse(example, kind, completer=completer())
            assert parse(print_message(message), kind) == message

    @pytest.mark.parametrize(("text", "kind"), [(PUBLISHED_CHILD, "child"), (PUBLISHED_PARENT, "parent")])
    def test_json_gives_the_same_message(self, text: str, kind: MessageKind) -> None:
        message = parse(text, kind)
        for indent in (None, 2):
            sent = json.dumps(message_sections(message), indent=indent)
            assert parse(sent, kind) == message
            assert parse(f"```json\n{sent}\n```", kind) == message

    def test_every_field_of_an_engram_is_preserved(self) -> None:
        text = LEAST + (
            "ENGRAMS:\n  - id: 01JH000000000000000000000A\n    kind: fact\n    claim: It holds.\n"
            f"    pointers: [{{type: repo, ref: '{REF}', digest: 'sha256:{'0' * 64}'}}]\n    confidence: 0.00001\n"
            "    tags: [a, 'b c']\n    hash_keys: ['service:gateway']\n    embedding_ref: store/1\n"
        )
        message = parse_child(text)
        assert parse_child(print_message(message)) == message
        assert message.engrams[0].tags == ("a", "b c")
        assert message.engrams[0].confidence == 0.00001


class TestLenientSpellings:
    @pytest.mark.parametrize(
        "text",
        [
            f"```yaml\n{LEAST}```",
            f"```\n{LEAST}```\n",
            f"\n\n  ```yml\n{LEAST}  ```\n\n",
            f"~~~~YAML\n{LEAST}~~~~",
            f"---\n{LEAST}",
            f"\ufeff{LEAST}",
            LEAST.replace("\n", "\r\n"),
            f"```yaml\n{LEAST}```".replace("\n", "\r\n"),
            LEAST.lower().replace("all is well", "All is well"),
            LEAST.replace("TASK_STATUS", "Task Status"),
            LEAST.replace("TASK_STATUS", "task-status"),
            LEAST.replace("done", "Completed"),
            LEAST.replace("done", "DONE"),
            LEAST.replace("programmer", "Programmer"),
            LEAST + "ENGRAMS: []\nPOINTER_PACK:\nDEREF_REQUESTS: null\n",
            LEAST.replace("{summary: All is well.}", "All is well."),
            LEAST.replace("{summary: All is well.}", "\n  summary: |\n    All is well.\n"),
            LEAST.replace("{summary: All is well.}", "\n  summary: >\n    All is\n    well.\n  next:\n"),
            "# a comment\n" + LEAST.replace("done", "done # indeed"),
            "{ROLE: programmer, TASK_STATUS: done, OUTPUT: {summary: All is well.}}",
            '{"ROLE": "programmer", "TASK_STATUS": "done", "OUTPUT": "All is well."}',
        ],
    )
    def test_other_spellings_of_a_message_are_equal(self, text: str) -> None:
        assert parse_child(text) == parse_child(LEAST)

    @pytest.mark.parametrize(
        "written",
        [
            f"POINTER_PACK: [{{type: repo, ref: {REF}}}]",
            f"POINTER_PACK: [{REF}]",
            f"POINTER_PACK:\n  - {REF}",
            f"POINTER_PACK:\n- '{REF}'",
            f"POINTER_PACK: {REF}",
            f"POINTER_PACK: {{ref: {REF}}}",
            f"POINTER_PACK:\n  - type: repo\n    ref: {REF}",
            f"POINTER_PACK:\n  - type: repo\n    ref: {REF.replace('#L280-L360', '')}\n    span: L280-L360",
        ],
    )
    def test_other_spellings_of_a_pointer_are_equal(self, written: str) -> None:
        assert parse_child(LEAST + written).pointer_pack == (POINTER,)

    @pytest.mark.parametrize(
        "pointers", [f"[{REF}]", REF, f"\n    - {REF}", f"[{{ref: {REF}}}]", f"{{type: repo, ref: {REF}}}"]
    )
    def test_other_spellings_of_an_engrams_pointers_are_equal(self, pointers: str) -> None:
        message = parse_child(
            f"{LEAST}ENGRAMS:\n  - kind: fact\n    claim: >\n      It holds\n      water.\n    pointers: {pointers}\n"
        )
        assert message.engrams[0].pointers == (POINTER,)
        assert message.engrams[0].claim == "It holds water."

    def test_a_ref_with_punctuation_needs_no_quotes(self) -> None:
        node = f"test:tests/test_x.py::test_y[a-1]@sha256:{'0' * 64}"
        assert parse_child(f"{LEAST}POINTER_PACK:\n  - {node}\n").pointer_pack == (Pointer(type="test", ref=node),)

    @pytest.mark.parametrize(
        ("written", "read"),
        [
            ("INSTRUCTIONS: Ship it.", ("Ship it.",)),
            ("INSTRUCTIONS: |\n  Ship it.\n\n  Then rest.\n", ("Ship it.", "Then rest.")),
            ("INSTRUCTIONS:\n  - Goal: ship it\n  - Rest", ("Goal: ship it", "Rest")),
            ("INSTRUCTIONS: ['Two\\nlines', \"two\\nlines\"]", ("Two\\nlines", "two\nlines")),
        ],
    )
    def test_other_spellings_of_lines_are_equal(self, written: str, read: tuple[str, ...]) -> None:
        assert parse_parent(f"ROLE: manager\n{written}").instructions == read
        assert (
            parse_parent(f"ROLE: manager\n{written.replace('INSTRUCTIONS', 'SHARED_BRIEF_MICRO')}").shared_brief_micro
            == read
        )

    def test_a_single_engram_or_request_needs_no_list(self) -> None:
        message = parse_child(
            f"{LEAST}ENGRAMS: {{kind: fact, claim: It holds., pointers: {REF}}}\n"
            f"DEREF_REQUESTS: {{pointer: {REF}, reason: Why not}}"
        )
        assert message.engrams[0].claim == "It holds."
        assert message.deref_requests[0].pointer == POINTER

    def test_the_role_may_be_the_senders(self) -> None:
        assert parse_child(LEAST, role="programmer").role == "programmer"

    def test_a_parents_message_needs_one_section_besides_its_role(self) -> None:
        for section in (
            "SHARED_BRIEF_MICRO: x",
            "BUDGETS: {max_engrams: 0}",
            f"TARGET_POINTER_PACK: {REF}",
            "INSTRUCTIONS: x",
        ):
            parse_parent(f"ROLE: manager\n{section}")


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "code", "field", "line"),
        [
            ("", "MESSAGE_EMPTY", None, 1),
            (" \n\n", "MESSAGE_EMPTY", None, 1),
            ("```\n```", "MESSAGE_EMPTY", None, 1),
            ("\nhello", "MESSAGE_SHAPE", None, 2),
            ("- ROLE: x", "MESSAGE_SHAPE", None, 1),
            ("[]", "MESSAGE_SHAPE", None, 1),
            (f"Here it is:\n```yaml\n{LEAST}```", "MESSAGE_FENCE", None, 2),
            (f"```yaml\n{LEAST}```\nThat is all.", "MESSAGE_FENCE", None, 5),
            (f"```yaml\n{LEAST}```\n```yaml\n{LEAST}```", "MESSAGE_FENCE", None, 5),
            (f"\n```yaml\n{LEAST}", "MESSAGE_FENCE", None, 2),
            (f"````yaml\n{LEAST}```", "MESSAGE_FENCE", None, 5),
            (f"```python\n{LEAST}```", "MESSAGE_FENCE", None, 1),
            ("TASK_STATUS: done\nOUTPUT: x", "MESSAGE_SECTION_MISSING", "ROLE", 1),
            ("\nROLE: tool\nOUTPUT: x", "MESSAGE_SECTION_MISSING", "TASK_STATUS", 2),
            ("ROLE: tool\nTASK_STATUS: done\nOUTPUT:", "MESSAGE_SECTION_MISSING", "OUTPUT", 3),
            (f"{LEAST}NOTES: x", "MESSAGE_SECTION_UNKNOWN", "NOTES", 4),
            (f"{LEAST}INSTRUCTIONS: x", "MESSAGE_SECTION_UNKNOWN", "INSTRUCTIONS", 4),
            (f"{LEAST}role: tool", "DUPLICATE_KEY", "role", 4),
            (f"{LEAST}ROLE: tool", "DUPLICATE_KEY", "ROLE", 4),
            (LEAST.replace("programmer", "king"), "MESSAGE_ROLE", "ROLE", 1),
            (LEAST.replace("programmer", "[tool]"), "MESSAGE_ROLE", "ROLE", 1),
            (LEAST.replace("done", "partial"), "MESSAGE_STATUS", "TASK_STATUS", 2),
            (LEAST.replace("done", "done, mostly"), "MESSAGE_STATUS", "TASK_STATUS", 2),
            (LEAST.replace("done", "true"), "MESSAGE_STATUS", "TASK_STATUS", 2),
            (LEAST.replace("All is well.", "5"), "FIELD_TYPE", "OUTPUT.summary", 3),
            (LEAST.replace("All is well.", "{a: b}"), "FIELD_TYPE", "OUTPUT.summary", 3),
            (LEAST.replace("All is well.", '" "'), "FIELD_VALUE", "OUTPUT.summary", 3),
            (LEAST.replace("All is well.", '"\\e[31m"'), "FIELD_VALUE", "OUTPUT.summary", 3),
            (LEAST.replace("All is well.", '"\\L"'), "FIELD_VALUE", "OUTPUT.summary", 3),
            (LEAST.replace("All is well.", "Fixed #12 today"), "TEXT_CUT", "OUTPUT.summary", 3),
            (LEAST.replace("summary", "sumary"), "FIELD_UNKNOWN", "OUTPUT.sumary", 3),
            (LEAST.replace("summary", "next"), "FIELD_MISSING", "OUTPUT.summary", 3),
            (LEAST.replace("{summary: All is well.}", "[a]"), "FIELD_TYPE", "OUTPUT", 3),
            (f"{LEAST}POINTER_PACK:\n  - {REF}\n  - 5", "FIELD_TYPE", "POINTER_PACK[1]", 6),
            (f"{LEAST}POINTER_PACK:\n  - src/x.py", "POINTER_SYNTAX", "POINTER_PACK[0]", 5),
            (f"{LEAST}POINTER_PACK:\n  - repo: src/x.py", "FIELD_UNKNOWN", "POINTER_PACK[0].repo", 5),
            (f"{LEAST}POINTER_PACK:\n  - repo:src/x.py", "POINTER_NOT_PINNED", "POINTER_PACK[0].ref", 5),
            (f"{LEAST}POINTER_PACK:\n  - type: repo", "FIELD_MISSING", "POINTER_PACK[0].ref", 5),
            (f"{LEAST}POINTER_PACK:\n  - type: sam\n    ref: {REF}", "POINTER_DISAGREES", "POINTER_PACK[0].type", 5),
            (f"{LEAST}POINTER_PACK:\n  - type: repo\n    ref: 7", "FIELD_TYPE", "POINTER_PACK[0].ref", 6),
            (f"{LEAST}POINTER_PACK: [{{ref: repo:a,b.py@{SHA}}}]", "FIELD_UNKNOWN", f"POINTER_PACK[0].b.py@{SHA}", 4),
            (f"{LEAST}DEREF_REQUESTS:\n  - pointer: {REF}", "FIELD_MISSING", "DEREF_REQUESTS[0].reason", 5),
            (f"{LEAST}DEREF_REQUESTS:\n  - {REF}", "FIELD_TYPE", "DEREF_REQUESTS[0]", 5),
            (
                f"{LEAST}DEREF_REQUESTS:\n  - pointer: {REF[:-1]}\n    reason: x",
                "POINTER_REVISION",
                "DEREF_REQUESTS[0].pointer.ref",
                5,
            ),
            (f"{LEAST}DEREF_REQUESTS:\n  - pointer: {REF}\n    reason: ''", "FIELD_VALUE",
             "DEREF_REQUESTS[0].reason", 6),
            (f"{LEAST}\t- x", "BAD_YAML", None, 4),
            (f"{LEAST}ENGRAMS:\n\t- x", "BAD_YAML", None, 5),
            (f"{LEAST}ENGRAMS: *x", "BAD_YAML", None, 4),
            (f"{LEAST}ENGRAMS: &x []", "BAD_YAML", None, 4),
            (f"{LEAST}ENGRAMS: !!set {{}}", "BAD_YAML", None, 4),
            (f"{LEAST}OTHER: a: b", "BAD_YAML", None, 4),
            (f"{LEAST}---\n{LEAST}", "BAD_YAML", None, 4),
            (f"{LEAST}NOTES: \x07", "BAD_YAML", None, 4),
            (f"{LEAST}NOTES: 1e999", "NUMBER_RANGE", "NOTES", 4),
            ('{\n"ROLE": "tool",\n"TASK_STATUS": "done",\n}', "BAD_JSON", None, 4),
            ('{\n"ROLE": "tool",\n"ROLE": "tool"}', "DUPLICATE_KEY", "ROLE", 3),
            ('{"ROLE": "tool",\n"TASK_STATUS": 1e999}', "NUMBER_RANGE", "TASK_STATUS", 2),
            ('{"ROLE": "tool",\n"TASK_STATUS": "done",\n"OUTPUT":\n{"summary": ""}}', "FIELD_VALUE",
             "OUTPUT.summary", 4),
            ('{"ROLE": "tool", "x": "\\ud800"}', "BAD_TEXT", None, None),
            ("ROLE: \ud800", "BAD_TEXT", None, None),
        ],
    )  # fmt: skip
    def test_an_invalid_child_message_is_refused(
        self, text: str, code: str, field: str | None, line: int | None
    ) -> None:
        problem = refusal(text)
        assert (problem.code, problem.field, problem.line) == (code, field, line)
        if line is not None and code not in ("MESSAGE_EMPTY", "DUPLICATE_KEY", "NUMBER_RANGE"):
            assert f"line {line}" in problem.detail
        assert EngramBusError.from_problem(problem.problem()).problem() == problem.problem()

    @pytest.mark.parametrize(
        ("text", "code", "field", "line"),
        [
            ("ROLE: manager", "MESSAGE_EMPTY", None, 1),
            ("ROLE: manager\nBUDGETS: {}\nINSTRUCTIONS: []", "MESSAGE_EMPTY", None, 1),
            ("ROLE: manager\nBUDGETS: {max_engrams: null}", "MESSAGE_EMPTY", None, 1),
            ("INSTRUCTIONS: x", "MESSAGE_SECTION_MISSING", "ROLE", 1),
            ("ROLE: manager\nENGRAMS: []", "MESSAGE_SECTION_UNKNOWN", "ENGRAMS", 2),
            ("ROLE: manager\nINSTRUCTIONS: 5", "FIELD_TYPE", "INSTRUCTIONS", 2),
            ("ROLE: manager\nINSTRUCTIONS:\n  - a\n  - Goal: 5", "FIELD_TYPE", "INSTRUCTIONS[1]", 4),
            ("ROLE: manager\nSHARED_BRIEF_MICRO:\n  - {a: b, c: d}", "FIELD_TYPE", "SHARED_BRIEF_MICRO[0]", 3),
            ("ROLE: manager\nBUDGETS: 5", "FIELD_TYPE", "BUDGETS", 2),
            ("ROLE: manager\nBUDGETS:\n  max_engrams: -1", "FIELD_VALUE", "BUDGETS.max_engrams", 3),
            ("ROLE: manager\nBUDGETS:\n  max_engrams: '5'", "FIELD_TYPE", "BUDGETS.max_engrams", 3),
            ("ROLE: manager\nBUDGETS:\n  max_engrams: true", "FIELD_TYPE", "BUDGETS.max_engrams", 3),
            ("ROLE: manager\nBUDGETS:\n  max_engrams: 1.0", "FIELD_TYPE", "BUDGETS.max_engrams", 3),
            ("ROLE: manager\nBUDGETS:\n  max_lines: 5", "FIELD_UNKNOWN", "BUDGETS.max_lines", 3),
            (f"ROLE: manager\nGRANTS:\n  - pointer: {REF}", "FIELD_MISSING", "GRANTS[0].budget_token", 3),
            (f"ROLE: manager\nGRANTS:\n  - budget_token: x\n    pointer: {REF}\n    cap_tokens: 0", "FIELD_VALUE",
             "GRANTS[0].cap_tokens", 5),
            (f"ROLE: manager\nGRANTS:\n  - budget_token: {'x' * 5000}\n    pointer: {REF}\n    cap_tokens: 1",
             "FIELD_VALUE", "GRANTS[0].budget_token", 3),
            ("ROLE: manager\ntarget_pointer_pack:\n  - {type: repo}", "FIELD_MISSING", "TARGET_POINTER_PACK[0].ref", 3),
        ],
    )  # fmt: skip
    def test_an_invalid_parent_message_is_refused(self, text: str, code: str, field: str | None, line: int) -> None:
        problem = refusal(text, "parent")
        assert (problem.code, problem.field, problem.line) == (code, field, line)

    @pytest.mark.parametrize(
        ("broken", "code", "field", "line"),
        [
            (engram(claim=""), "CLAIM_EMPTY", "ENGRAMS[1].claim", 9),
            (engram(claim="x" * 501), "CLAIM_TOO_LONG", "ENGRAMS[1].claim", 9),
            (engram(claim="One. Two. Three. Four."), "CLAIM_TOO_MANY_SENTENCES", "ENGRAMS[1].claim", 9),
            (engram(ref="repo:x.py"), "POINTER_NOT_PINNED", "ENGRAMS[1].pointers[0].ref", 10),
            (engram(ref="x.py:10"), "POINTER_SYNTAX", "ENGRAMS[1].pointers[0]", 10),
            ("  - kind: fact\n    claim: It holds.\n", "NO_POINTER", "ENGRAMS[1].pointers", 8),
            ("  - kind: fact\n    claim: It holds.\n    pointers: []\n", "NO_POINTER", "ENGRAMS[1].pointers", 10),
            (engram().replace("fact", "guess"), "FIELD_VALUE", "ENGRAMS[1].kind", 8),
            (engram() + "    ttl: P1Y\n", "TTL_INVALID", "ENGRAMS[1].ttl", 11),
            (engram() + "    confidence: 2\n", "CONFIDENCE_RANGE", "ENGRAMS[1].confidence", 11),
            (engram() + "    confidence: high\n", "FIELD_TYPE", "ENGRAMS[1].confidence", 11),
            (engram() + "    colour: red\n", "FIELD_UNKNOWN", "ENGRAMS[1].colour", 11),
            (engram() + "    provenance: {}\n", "PROVENANCE_STAMPED", "ENGRAMS[1].provenance", 11),
            ("  - just a text\n", "FIELD_TYPE", "ENGRAMS[1]", 8),
        ],
    )
    def test_the_field_and_line_of_an_invalid_engram_are_named(
        self, broken: str, code: str, field: str, line: int
    ) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram()}{broken}"
        problem = refusal(text)
        assert (problem.code, problem.field, problem.line) == (code, field, line)
        assert f"line {line}" in problem.detail
        shifted = refusal(f"\n```yaml\n{text}```\n")
        assert (shifted.code, shifted.field, shifted.line) == (code, field, line + 2)
        renamed = refusal(text.replace("ENGRAMS", "engrams"))
        assert (renamed.code, renamed.field, renamed.line) == (code, field, line)

    def test_the_projects_longest_ttl_holds_in_messages(self) -> None:
        text = f"{LEAST}ENGRAMS:\n{engram()}    ttl: P2D\n"
        assert parse_child(text).engrams[0].ttl == "P2D"
        assert refusal(text, max_ttl_us=YEAR_US // 365).code == "TTL_TOO_LONG"

    def test_a_role_that_is_not_the_senders_is_refused(self) -> None:
        problem = refusal(LEAST, role="manager")
        assert (problem.code, problem.field, problem.limit, problem.line) == ("MESSAGE_ROLE", "ROLE", "manager", 1)

    def test_all_problems_are_reported_at_once(self) -> None:
        text = f"{LEAST}NOTES: x\nENGRAMS:\n{engram('')}{engram()}{engram('x' * 501)}POINTER_PACK: [x]\n"
        parsed = parse_message(text, "child", max_ttl_us=YEAR_US)
        assert parsed.message is None
        assert [problem.code for problem in parsed.problems] == [
            "MESSAGE_SECTION_UNKNOWN", "CLAIM_EMPTY", "CLAIM_TOO_LONG", "POINTER_SYNTAX",
        ]  # fmt: skip
        assert len(parsed.parts["engrams"]) == 1
        assert parsed.parts["output"] == Output(summary="All is well.")
        assert parsed.item_counts["ENGRAMS"] == 3


class TestHostile:
    def test_oversized_and_nested_texts_are_refused(self) -> None:
        layers = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        layers += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
        long_keys = "? " + "k" * 60_000 + "\n: [" + "1, " * 60_000 + "]\n"
        long_names = '{"' + "k" * 60_000 + '": [' + "1, " * 60_000 + "1]}"
        fences = "```\n" * 60_000
        for text, code in (
            ("\n".join(layers), "BAD_YAML"),
            ("[" * 100_000, "TOO_DEEP"),
            ("- " * 5_000 + "a", "TOO_DEEP"),
            ('{"a":' * 40_000, "TOO_DEEP"),
            ("ENGRAMS: " + "{a: " * 17 + "}" * 17, "TOO_DEEP"),
            ("x" * 10_000_000, "BODY_TOO_LARGE"),
            ("ROLE: tool\n" * 1_000_000, "BODY_TOO_LARGE"),
            ("\u20ac" * 100_000, "BODY_TOO_LARGE"),
            (long_keys, "MESSAGE_SECTION_UNKNOWN"),
            (long_names, "MESSAGE_SECTION_UNKNOWN"),
            (fences, "MESSAGE_FENCE"),
            (f"{LEAST}ENGRAMS: [" + "{}, " * 60_000 + "]", "FIELD_MISSING"),
        ):
            assert refusal(text[:10_000_000]).code == code, text[:40]
        assert MAX_MESSAGE_BYTES == 262_144

    def test_a_refusal_is_always_short(self) -> None:
        for text in (
            f"{LEAST}{'N' * 900}: x",
            f"{LEAST}OUTPUTS: {'x' * 9_000}",
            f"{LEAST}POINTER_PACK: ['{'x' * 9_000}']",
        ):
            assert len(json.dumps(refusal(text).problem())) < 1_500

    @given(st.text(max_size=300))
    def test_any_text_is_parsed_or_refused(self, text: str) -> None:
        for kind in ("child", "parent"):
            check_round_trip(text, kind)

    @given(
        st.lists(
            st.sampled_from([
                "ROLE:", "TASK_STATUS:", "ENGRAMS:", "OUTPUT:", "INSTRUCTIONS:", "BUDGETS:", "GRANTS:", "\n", "\n  ",
                "\n- ", " - ", "kind: fact", "claim: x", "pointers:", REF, "tool", "done", "{", "}", "[", "]", ",", '"',
                "'", "|", ">", " #x", "# x", ": ", "null", "5", "1e5", "&a", "*a", "!x", "```", "~~~", "\t", "\x85",
                "\ufeff", "\u2028", "summary: y", "max_engrams: 5", "---", "...", "? ", "\\", "\r",
            ]),
            max_size=40,
        ).map("".join)
    )  # fmt: skip
    def test_any_text_similar_to_a_message_is_parsed_or_refused(self, text: str) -> None:
        for kind in ("child", "parent"):
            check_round_trip(LEAST + text, kind)
            check_round_trip(text, kind)


def check_round_trip(text: str, kind: MessageKind) -> None:
    """Check that a text is refused, or that its message is equal after printing and parsing it."""
    try:
        message = parse(text, kind)
    except EngramBusError as problem:
        json.dumps(problem.problem()).encode()
        return
    assert parse(print_message(message), kind) == message


@pytest.mark.parametrize(
    ("kind", "text", "field"),
    [
        ("child", f"{LEAST}ENGRAMS:\n{engram('...')}", "ENGRAMS[0].claim"),
        ("child", f'{LEAST}DEREF_REQUESTS:\n- {{ pointer: "{REF}", reason: "..." }}\n', "DEREF_REQUESTS[0].reason"),
        ("child", 'ROLE: tool\nTASK_STATUS: done\nOUTPUT: { summary: "Done.", next: "…" }\n', "OUTPUT.next"),
        ("parent", 'ROLE: tool\nSHARED_BRIEF_MICRO:\n- "Goal: ship it."\n- "..."\n', "SHARED_BRIEF_MICRO[1]"),
        ("parent", 'ROLE: tool\nINSTRUCTIONS: "..."\n', "INSTRUCTIONS[0]"),
    ],
)
def test_a_text_of_dots_only_is_refused_in_every_field(kind: MessageKind, text: str, field: str) -> None:  # EB-10
    problems = parse_message(text, kind, max_ttl_us=YEAR_US).problems
    assert [(problem.code, problem.field) for problem in problems] == [("MESSAGE_UNFILLED", field)]
