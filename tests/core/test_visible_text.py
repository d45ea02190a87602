"""The rule of invisible text: what counts, what ordinary writing needs, and how it is shown."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engrambus.core import check_visible
from engrambus.testing import expect_refusal
from engrambus.visible_text import count_invisible, escape_json, find_invisible, make_json_visible, make_visible

WRITING = {
    "emoji of several parts": "👩‍💻 👨🏽‍⚕️ 🏳️‍🌈 ❤️‍🔥 👩‍❤️‍💋‍👨 🧑🏿‍🤝‍🧑🏻",
    "keycaps, flags, signs": "1️⃣ #️⃣ 🇮🇷 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🏴󠁧󠁢󠁷󠁬󠁳󠁿 ⚠️ ℹ️ ™️ ✔︎ ➡️ ‼️",
    "Persian": "می‌خواهم URL‌ها و README‌های پروژه را ببینم.",
    "Arabic": "هذا مستودع لتعلّم المساهمة في المشاريع.",
    "Urdu": "یہ پہلا قدم ہے۔",
    "Hebrew with points": "בְּרֵאשִׁ֖ית בָּרָ֣א, שלום עולם",
    "Hindi": "क्‍ष और र्‍य, प्रोजेक्ट में योगदान",
    "Bengali": "র‍্যাব ও অ‌্যাপ, প্রকল্পে অবদান",
    "Malayalam": "അവന്‍ പറഞ്ഞു, ഞാന്‍ കണ്ടു",
    "Sinhala": "ශ්‍රී ලංකාව",
    "Tamil": "திட்டத்தில் பங்களிப்பு",
    "Thai and Khmer with breaks": "ภาษา\u200bไทย ភាសា\u200bខ្មែរ",
    "Mongolian": "ᠬᠡᠯᠡ\u180e\u1820 ᠠ\u180b",
    "Japanese": "日本語のドキュメントを読む。ｶﾞ",
    "Korean": "한국어 문서",
    "Chinese with a variant": "文\ufe00字",
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "Tiếng Việt rất đẹp"),
    "spaces of typographers": "1\u00a0000\u202f€, 10\u2009%, em\u2014dash",
    "mathematics": "∀x ∈ ℝ: x² ≥ 0, a ∩\ufe00 b",
    "code": "const π = '→'; // ✅ naïve",
}
HIDDEN = {
    "a tag": "\U000e0041",
    "tags behind another flag": "\U0001f3f4\U000e0075\U000e0073\U000e007f",
    "bidi": "\u202a \u202e \u2066 \u2069 \u200e \u200f \u061c",
    "zero width": "a\u200bb",
    "zero width between Indic words": "क \u200b\u200b ख",
    "byte order": "\ufeff",
    "joiners in Latin": "a\u200db, a\u200cb",
    "two joiners in Persian": "می\u200c\u200cخ",
    "joiner after an emoji alone": "😀\u200d",
    "selector without a symbol": "a\ufe0f",
    "selectors in a row": "❤\ufe0f\ufe0f",
    "ideographic selectors": "葛\U000e0100",
    "word joiner, operators": "\u2060\u2061\u2062\u2063\u2064",
    "deprecated": "\u206a\u206f",
    "fillers": "\u115f\u1160\u3164\uffa0",
    "Khmer vowels that are not written": "\u17b4\u17b5",
    "annotation": "\ufff9\ufffb",
    "soft hyphen": "sec\u00adret",
    "grapheme joiner": "a\u034fb",
    "musical and shorthand formats": "\U0001d173\U0001bca0",
    "private use": "\ue000\U000f0000\U0010fffd",
    "no characters": "\ufdd0\uffff\U0001fffe",
    "accents in a heap": "e" + "\u0301" * 30,
}
_MIXED = "a1#é☎❤😀🏴ب\u0915\u094d\u0e01\u1820\u200b\u200c\u200d\ufe0f\ufe00\u034f\u0301\u202e\U000e0067 "
any_text = st.text() | st.text(st.sampled_from(_MIXED))


@pytest.mark.parametrize("text", WRITING.values(), ids=WRITING)
def test_ordinary_writing_passes_unchanged(text: str) -> None:
    assert find_invisible(text) is None
    assert make_visible(text) == text


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_people_do_not_see_is_found_and_shown(text: str) -> None:
    found = find_invisible(text)
    assert found is not None
    assert found.character.startswith(f"U+{ord(text[found.position]):04X} ")
    assert f"\\u{{{ord(text[found.position]):04X}}}" in make_visible(text)


def test_a_refusal_names_field_character_and_position() -> None:
    with expect_refusal("INVISIBLE_TEXT", "steps[1].note"):
        check_visible({"steps": [{"note": "Fine."}, {"note": "Not\u202e fine."}]})
    assert find_invisible("Not\u202e fine.") == (3, "U+202E RIGHT-TO-LEFT OVERRIDE")


@given(any_text)
@example("\ufe0f\u200d⌀")  # the joiner stands at a symbol only as long as its selector is not an escape
def test_nothing_invisible_is_left_and_nothing_visible_is_lost(text: str) -> None:
    shown = make_visible(text)
    assert find_invisible(shown) is None
    assert re.sub(r"\\u\{([0-9A-F]{4,6})\}", lambda escape: chr(int(escape[1], 16)), shown) == text or "\\u{" in text
    assert count_invisible(text) == (shown.count("\\u{") - text.count("\\u{"))


@given(st.recursive(any_text, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3)))
def test_json_has_the_same_value_or_escapes_in_its_texts(value: object) -> None:
    try:
        document = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    escaped = escape_json(document)
    assert json.loads(escaped) == json.loads(document)
    assert find_invisible(escaped.decode()) is None
    assert find_invisible(json.dumps(json.loads(make_json_visible(document)), ensure_ascii=False)) is None
