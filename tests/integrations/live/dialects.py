"""The three ways in which vendors' clients ask their models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.integrations.live.model import Answer, Call, ModelRequest


class Messages:
    """The Messages API, as Claude Code speaks it."""

    def read(self, path: str, body: Any) -> ModelRequest | None:
        """Hints of the client itself come in a role of their own, between the user's words."""
        if not path.partition("?")[0].endswith("/messages"):
            return None
        prompt_parts: list[str] = [_words(body.get("system", ""))]
        results: list[str] = []
        messages: list[str] = []
        for message in body["messages"]:
            if message["role"] == "assistant":
                messages.append(_words(message["content"]))
                continue
            prompt_parts.append(_words(message["content"]))
            blocks = message["content"] if isinstance(message["content"], list) else []
            results += [_words(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
        tools = tuple(tool["name"] for tool in body.get("tools", []))
        return ModelRequest(
            "\n".join(prompt_parts), tools, tuple(results), tuple(filter(None, messages)), json.dumps(body)
        )

    def write(self, answer: Answer, number: int) -> dict[str, Any]:
        """One message with one block."""
        block: dict[str, Any] = {"type": "text", "text": answer}
        if isinstance(answer, Call):
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": answer.tool, "input": answer.arguments}
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [block],
            "stop_reason": "tool_use" if isinstance(answer, Call) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def events(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """A frame of the message, its block, what fills the block, and the end."""
        (block,) = response["content"]
        if block["type"] == "text":
            frame, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            frame = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        stop = {"stop_reason": response["stop_reason"], "stop_sequence": None}
        return [
            {"type": "message_start", "message": {**response, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": frame},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]

    def streams(self, path: str, body: Any) -> bool:
        """As the request says."""
        return bool(body.get("stream"))

    def aside(self) -> str:
        """A title, say."""
        return "A session"


class Responses:
    """The Responses API, as Codex speaks it."""

    def read(self, path: str, body: Any) -> ModelRequest | None:
        """Tools of a server stand in a group; a call names both."""
        if not path.endswith("/responses"):
            return None
        prompt_parts: list[str] = [body.get("instructions") or ""]
        results: list[str] = []
        messages: list[str] = []
        for item in body["input"]:
            if item["type"] in ("function_call_output", "custom_tool_call_output"):
                results.append(_words(item["output"]))
            elif item["type"] == "message":
                (messages if item["role"] == "assistant" else prompt_parts).append(_words(item["content"]))
        tools = tuple(self._tools(body.get("tools", [])))
        return ModelRequest("\n".join(prompt_parts), tools, tuple(results), tuple(messages), json.dumps(body))

    def _tools(self, listed: list[Any]) -> Iterable[str]:
        for tool in listed:
            if "tools" in tool:
                yield from (f"{tool['name']}/{inner['name']}" for inner in tool["tools"])
            else:
                yield tool.get("name") or tool["type"]

    def write(self, answer: Answer, number: int) -> dict[str, Any]:
        """One item."""
        item: dict[str, Any]
        if isinstance(answer, Call) and answer.tool == "apply_patch":  # a tool that takes a text
            number_id = {"id": f"ctc_{number}", "call_id": f"call_{number}"}
            item = {"type": "custom_tool_call", **number_id, "name": answer.tool, "input": answer.arguments["input"]}
        elif isinstance(answer, Call):
            group, _, name = answer.tool.rpartition("/")
            item = {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": name,
                "arguments": json.dumps(answer.arguments),
                **({"namespace": group} if group else {}),
            }
        else:
            content = [{"type": "output_text", "text": answer}]
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return {"id": f"resp_{number}", "output": [item], "usage": usage}

    def events(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """The item, once it is done."""
        (item,) = response["output"]
        return [
            {"type": "response.created", "response": {"id": response["id"]}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]

    def streams(self, path: str, body: Any) -> bool:
        """As the request says."""
        return bool(body.get("stream"))

    def aside(self) -> str:
        """A title, say."""
        return "A session"


class Contents:
    """The generateContent API, as Gemini CLI speaks it."""

    def read(self, path: str, body: Any) -> ModelRequest | None:
        """Every part is words, a call or its response."""
        if "generatecontent" not in path.lower():
            return None
        prompt_parts: list[str] = [_words(body.get("systemInstruction", {}).get("parts", []))]
        results: list[str] = []
        messages: list[str] = []
        for content in body["contents"]:
            words = _words(content["parts"])
            (messages if content.get("role") == "model" else prompt_parts).append(words)
            results += [json.dumps(part["functionResponse"]) for part in content["parts"] if "functionResponse" in part]
        tools = tuple(
            declared["name"] for tool in body.get("tools", []) for declared in tool.get("functionDeclarations", [])
        )
        return ModelRequest(
            "\n".join(prompt_parts), tools, tuple(results), tuple(filter(None, messages)), json.dumps(body)
        )

    def write(self, answer: Answer, number: int) -> dict[str, Any]:
        """One candidate with one part."""
        part: dict[str, Any] = {"text": answer}
        if isinstance(answer, Call):
            part = {"functionCall": {"name": answer.tool, "args": answer.arguments}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [candidate], "usageMetadata": usage}

    def events(self, response: dict[str, Any]) -> list[dict[str, Any]]:
        """All of it at once."""
        return [response]

    def streams(self, path: str, body: Any) -> bool:
        """As the path says."""
        return "stream" in path

    def aside(self) -> str:
        """Which model the question needs, and who speaks next."""
        return json.dumps(
            {"reasoning": "", "complexity_reasoning": "", "complexity_score": 1, "model_choice": "flash"}
            | {"next_speaker": "user"}
        )


def _words(content: Any) -> str:
    """The text in what may be a string or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
