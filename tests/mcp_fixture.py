# SPDX-License-Identifier: GPL-2.0-only
"""`python tests/mcp_fixture.py FOLDER`: ASA's server with what the conformance suite calls by fixed names, over HTTP.

The suite's scenarios for tools, resources and prompts want contents that no real server has. They are put beside
ASA's own on the same server object, so that its transport, its lists and its errors are held to all of them.
"""

import base64
import json
import re
import struct
import sys
import zlib
from pathlib import Path

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
    UnsubscribeRequestParams,
)

from asa import paths
from asa.mcp import server
from asa.mcp.machine import Machine

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = "text/plain"


def _png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def _wav() -> str:
    """No sample."""
    form = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    return base64.b64encode(b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + form + b"data" + bytes(4)).decode()


def _text(text: str) -> TextContent:
    return TextContent(text=text)


def _image() -> ImageContent:
    return ImageContent(data=_png(), mime_type="image/png")


def _embedded(uri: str, text: str, kind: str = _PLAIN) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


TOOLS = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [_image()],
    "test_audio_content": [AudioContent(data=_wav(), mime_type="audio/wav")],
    "test_embedded_resource": [_embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        _image(),
        _embedded("test://mixed-content-resource", json.dumps({"test": "data", "value": 123}), "application/json"),
    ],
    "test_error_handling": [_text("This tool intentionally returns an error for testing")],
    "json_schema_2020_12_tool": [_text("taken")],
}
_ADDRESS = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
RESOURCES = ("static-text", "static-binary", "watched-resource")
PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


def make():
    """The server."""
    made = server.make(Machine())

    def own(method):
        return made.get_request_handler(method).handler

    _tools(made, own("tools/list"), own("tools/call"))
    _resources(made, own("resources/list"), own("resources/read"))
    _prompts(made, own("prompts/list"), own("prompts/get"))
    return made


def _tools(made, listing, calling):
    async def listed(context, params):
        found = await listing(context, params)
        more = [Tool(name=name, description="a fixture", input_schema=_schema(name)) for name in TOOLS]
        return ListToolsResult(tools=[*found.tools, *more])

    async def called(context, params):
        if params.name not in TOOLS:
            return await calling(context, params)
        return CallToolResult(content=TOOLS[params.name], is_error=params.name == "test_error_handling")

    made.add_request_handler("tools/list", PaginatedRequestParams, listed)
    made.add_request_handler("tools/call", CallToolRequestParams, called)


def _schema(name):
    if name != "json_schema_2020_12_tool":
        return {"type": "object", "properties": {}}
    return {
        "$schema": _DRAFT,
        "type": "object",
        "$defs": {"address": _ADDRESS},
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    }


def _resources(made, listing, reading):
    async def listed(context, params):
        found = await listing(context, params)
        return ListResourcesResult(
            resources=[*found.resources, *(Resource(name=one, uri=f"test://{one}") for one in RESOURCES)]
        )

    async def read(context, params):
        uri = str(params.uri)
        if uri == "test://static-binary":
            return ReadResourceResult(contents=[BlobResourceContents(uri=uri, mime_type="image/png", blob=_png())])
        if uri == "test://static-text":
            return _body(uri, "This is the content of the static text resource.")
        if match := re.fullmatch(r"test://template/(\w+)/data", uri):
            body = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
            return _body(uri, json.dumps(body), "application/json")
        return await reading(context, params)

    async def watched(_, __):
        return EmptyResult()

    made.add_request_handler("resources/list", PaginatedRequestParams, listed)
    made.add_request_handler("resources/read", ReadResourceRequestParams, read)
    made.add_request_handler("resources/subscribe", SubscribeRequestParams, watched)
    made.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, watched)


def _body(uri, text, kind=_PLAIN):
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=text)])


def _prompts(made, listing, getting):
    async def listed(context, params):
        found = await listing(context, params)
        more = [
            Prompt(
                name=name,
                description="a fixture",
                arguments=[PromptArgument(name=one, description="a word", required=True) for one in names],
            )
            for name, names in PROMPTS.items()
        ]
        return ListPromptsResult(prompts=[*found.prompts, *more])

    async def got(context, params):
        if params.name not in PROMPTS:
            return await getting(context, params)
        given = params.arguments or {}
        contents = {
            "test_simple_prompt": [_text("This is a simple prompt for testing.")],
            "test_prompt_with_arguments": [
                _text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
            ],
            "test_prompt_with_embedded_resource": [
                _embedded(given.get("resourceUri", "test://none"), "Embedded resource content for testing."),
                _text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image": [_image(), _text("Please analyze the image above.")],
        }
        return GetPromptResult(messages=[PromptMessage(role="user", content=one) for one in contents[params.name]])

    async def completed(_, __):
        return CompleteResult(completion=Completion(values=[], total=0, has_more=False))

    made.add_request_handler("prompts/list", PaginatedRequestParams, listed)
    made.add_request_handler("prompts/get", GetPromptRequestParams, got)
    made.add_request_handler("completion/complete", CompleteRequestParams, completed)


def main(folder):
    """Serve on a free port, which is printed."""
    places = paths.Places(run=folder / "run", cache=folder / "cache", state=folder / "state", config=folder / "none")
    paths.default = lambda: places
    server.serve_http(make(), "127.0.0.1", 0, lambda: None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
