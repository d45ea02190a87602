"""Messages between parents and children."""

from stigmergy.knowledge.messages.code import CodeSpan, code_chars, find_code

__all__ = ["CodeSpan", "code_chars", "find_code"]
