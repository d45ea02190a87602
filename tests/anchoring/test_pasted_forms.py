"""Text is found even if it was indented, quoted, numbered, fenced, escaped, cut, or made into a diff."""

from __future__ import annotations

import json
import textwrap

import pytest
import yaml

from engrambus.evidence.anchoring import Anchor
from tests.anchoring.conftest import MakeAnchors
from tests.evidence.repos import Repo

SOURCE = '''\
"""How refunds are decided."""

LIMIT = 500


def refund(order, approvals):
    """Pay an order back, if enough people agree."""
    if order.total > LIMIT:
        check(approvals, "two",\tat_least=2)

        log.info("refund of %s \\n approved", order.id)
    return pay_back(order)


def check(approvals, who, at_least):
    if len(approvals) < at_least:
        raise TooFew(who)
    # nothing to do
    return None
'''
LINES = SOURCE.split("\n")
CUT = LINES[5:12]
"""The function `refund`."""
SPAN = "src/refunds.py#L6-L12"


def numbered(form: str) -> str:
    return "\n".join(form.format(number, line) for number, line in enumerate(CUT, 6))


def diffed(*, mark: str) -> str:
    return "\n".join(
        [" " + line for line in CUT[:3]] + [mark + line for line in CUT[3:6]] + [" " + line for line in CUT[6:]]
    )


TEXT = "\n".join(CUT)
QUOTED = "\n".join(f"> {line}" for line in CUT)
FORMS = {
    "as it is": TEXT,
    "blank lines around": f"\n\n  \n{TEXT}\n\n",
    "dedented": textwrap.dedent(TEXT),
    "indented": textwrap.indent(TEXT, "        "),
    "tabs": TEXT.replace("    ", "\t"),
    "one space": TEXT.replace("    ", " "),
    "no indentation": "\n".join(line.strip() for line in CUT),
    "trailing white space": "\n".join(line + "  \t" for line in CUT),
    "blank lines gone": "\n".join(line for line in CUT if line.strip()),
    "blank lines everywhere": "\n\n".join(CUT),
    "CRLF": "\r\n".join(CUT),
    "no-break spaces": TEXT.replace("    ", "\u00a0\u00a0\u00a0\u00a0"),
    "a byte order mark": "\ufeff" + TEXT,
    "quoted": QUOTED,
    "quoted without a space": "\n".join(f">{line}" for line in CUT),
    "quoted twice": "\n".join(f"> > {line}" for line in CUT),
    "in a table's column": "\n".join(f"| {line}" for line in CUT),
    "grep -n": numbered("{}:{}"),
    "grep -C": numbered("{}-{}"),
    "grep -rn": numbered("src/refunds.py:{}:{}"),
    "grep -rC": numbered("src/refunds.py-{}-{}"),
    "cat -n": numbered("{:6d}\t{}"),
    "a dereference": numbered("{:>2}  {}"),
    "a linter's frame": numbered("{:>3} | {}"),
    "arrows": numbered("{}→{}"),
    "a fence": f"```python\n{TEXT}\n```",
    "tildes": f"~~~\n{TEXT}\n~~~",
    "a quoted fence of numbers": "\n".join(f"> {line}" for line in f"```\n{numbered('{}: {}')}\n```".split("\n")),
    "backticks": "\n".join(f"`{line.strip()}`" for line in CUT if line.strip()),
    "an added hunk": f"--- a/src/refunds.py\n+++ b/src/refunds.py\n@@ -6,4 +6,7 @@ def x\n{diffed(mark='+')}",
    "a removed hunk": f"diff --git a/x b/x\nindex 12ab..34cd 100644\n@@ -6,7 +6,4 @@\n{diffed(mark='-')}",
    "a hunk with both": "@@ -6,4 +6,7 @@\n" + diffed(mark="+").replace("\n+", "\n-    removed = line(it)\n+", 1),
    "added lines only": "\n".join("+" + line for line in CUT),
    "a quoted diff": "\n".join(f"> +{line}" for line in CUT),
    "no newline at the end": diffed(mark="+") + "\n\\ No newline at end of file",
    "a JSON string": json.dumps(TEXT),
    "a JSON string's inside": json.dumps(TEXT)[1:-1],
    "a JSON string with a comma": json.dumps(TEXT) + ",",
    "a quoted JSON string": json.dumps(QUOTED),
    "a JSON string of numbers": json.dumps(numbered("{}:{}")),
    "a YAML string": yaml.safe_dump(TEXT, default_style='"', width=10**6),
    "a YAML string in one quote": "'" + TEXT.replace("'", "''") + "'",
    "cut at the beginning": TEXT[9:],
    "cut at the end": TEXT[:-7],
    "cut at both ends": TEXT[9:-7],
    "elided": "\n".join([*CUT[:2], "...", *CUT[5:]]),
    "elided in a comment": "\n".join([*CUT[:2], "    # ... as before", *CUT[5:]]),
    "elided with an ellipsis": "\n".join([*CUT[:2], "    […]", *CUT[5:]]),
    "a line elided at its end": "\n".join([*CUT[:3], CUT[3][:14] + "...", *CUT[5:]]),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_pasted_form_is_found(repo: Repo, make_anchors: MakeAnchors, form: str) -> None:
    sha = repo.commit({"src/refunds.py": SOURCE, "src/other.py": "def other(order):\n    return order.total\n"})
    anchor = make_anchors(repo).find(FORMS[form])
    assert anchor.pointer is not None, anchor
    assert anchor.pointer.ref == f"repo:{SPAN}@{sha}"
    assert anchor.candidates == ()
    assert anchor.matched_lines == (4 if form.startswith("elided") else 6)


CHANGED = {
    "a word": TEXT.replace("approvals", "approval", 1),
    "a line too many": TEXT.replace("    return pay", "    audit(order)\n    return pay"),
    "a line too few": "\n".join([*CUT[:3], *CUT[4:]]),
    "another order": "\n".join([CUT[0], CUT[2], CUT[1], *CUT[3:]]),
    "prose around it": f"This is the function:\n{TEXT}",
    "upper case": TEXT.upper(),
    "spaces where there were none": TEXT.replace("order.total", "order . total"),
    "only brackets": "}\n)\n];",
    "nothing": "  \n ",
}


@pytest.mark.parametrize("form", CHANGED)
def test_changed_text_is_not_found(repo: Repo, make_anchors: MakeAnchors, form: str) -> None:
    repo.commit({"src/refunds.py": SOURCE})
    assert make_anchors(repo).find(CHANGED[form]) == Anchor()


def test_a_file_with_carriage_returns(repo: Repo, make_anchors: MakeAnchors) -> None:
    sha = repo.commit({"src/refunds.py": SOURCE.replace("\n", "\r\n")})
    anchor = make_anchors(repo).find(TEXT)
    assert anchor.pointer is not None
    assert anchor.pointer.ref == f"repo:{SPAN}@{sha}"


@pytest.mark.parametrize(
    ("in_file", "pasted"),
    [
        ("größe = 'schön'  # naïve\n合計 = 数量 * 単価\nprint('🎉 done', größe)\n",) * 2,
        ("caf\u00e9 = 'a drink'\nna\u00efve = True\nprint(caf\u00e9)\n", "cafe\u0301 = 'a drink'\nnai\u0308ve = True\nprint(cafe\u0301)"),  # noqa: E501
        ("合計を計算する関数です。\n数量に単価を掛けます。\n", "合計を計算する関数です。\n数量に単価を掛けます。"),
    ],
)  # fmt: skip
def test_letters_of_many_scripts(repo: Repo, make_anchors: MakeAnchors, in_file: str, pasted: str) -> None:
    sha = repo.commit({"wörter.py": f"# first\n{in_file}# last\n"})
    anchors = make_anchors(repo)
    last = 1 + in_file.count("\n")
    for text in (pasted, json.dumps(pasted), json.dumps(pasted, ensure_ascii=False)):
        anchor = anchors.find(text)
        assert anchor.pointer is not None
        assert anchor.pointer.ref == f"repo:wörter.py#L2-L{last}@{sha}"


def test_text_that_is_not_unicode_is_not_found(repo: Repo, make_anchors: MakeAnchors) -> None:
    repo.commit({"a.py": SOURCE})
    assert make_anchors(repo).find("def \ud800 refund\nreturn \0 something") == Anchor()
