# SPDX-License-Identifier: GPL-2.0-only
"""A server with OpenAI's interface that does what a test says, and children that answer when it says so."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from asa.adviser.asking import Asker, Question

MODEL = "toy-1b"


class Server(ThreadingHTTPServer):
    """`answers` makes status and body of each question, by its way; `asked` has all of them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.models = 200, {"data": [{"id": MODEL}]}
        self.answers = lambda way, program: (200, said("compress", "high") if way != "plain" else said_plainly())

    def handle_error(self, *_):
        """Nothing: a client that has read enough closes the connection."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def question(self, program="zap", **more):
        return {"url": self.url, "model": "", "way": "", "program": program, "remote": False, **more}


class Handler(BaseHTTPRequestHandler):
    """As small as it can be."""

    def do_GET(self):
        self.reply(*self.server.models)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        way = "schema" if "response_format" in asked else "grammar" if "grammar" in asked else "plain"
        program = json.loads(asked["messages"][1]["content"]).get("program", "")
        self.reply(*self.server.answers(way, program))

    def reply(self, status, body, headers=()):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Nothing: the tests say what went wrong."""


def said(kind, sure):
    return completion(json.dumps({"kind": kind, "sure": sure}))


def said_plainly(text="compress high"):
    return completion(text)


def completion(content):
    return {"choices": [{"message": {"role": "assistant", "content": content}}]}


S = 10**9
QUESTION = Question(url="http://127.0.0.1:9/v1", model="", way="", remote=False, program="zap")


class Toy:
    """A question that is answered when a test says so."""

    def __init__(self, sent=b""):
        self.sent, self.text, self.ended = sent, None, False

    def poll(self):
        return self.text

    def end(self):
        self.ended = True


class Bench:
    """An asker of toys."""

    def __init__(self, per_hour=20):
        self.toys = []
        self.asker = Asker(per_hour, self.begin)

    def begin(self, sent):
        self.toys.append(Toy(sent))
        return self.toys[-1]

    def asks(self, at_s, text):
        assert self.asker.begin(QUESTION, at_s * S) == ""
        self.toys[-1].text = text
        return self.asker.heard(at_s * S)


@contextmanager
def serving():
    """A server that answers in a thread."""
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.shutdown()
        thread.join()
