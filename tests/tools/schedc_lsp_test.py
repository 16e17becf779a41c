#!/usr/bin/python3
"""schedc lsp, as an editor talks to it: real messages, and wrong ones.

usage: tests/tools/schedc_lsp_test.py SCHEDC SCHEDULES
"""
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any

SCHEDC, SCHEDULES = "", ""
PATIENCE = 60  # seconds for what takes milliseconds where nothing else runs
TEXT = """# Ä
algorithm mine all_gather(x; step = 1) over g where g.size > 0 {
    let f(i) = i + step
    for s in 0 ..< g.size - 1
        each r in g
            x[r - s] : r -> f(r)
}

schedule whole all_reduce(x) {
    reduce_scatter x over world using ring
    all_gather     x over world using mine
}
"""
# Right for the parser, and wrong for the proof.
LOSES = "schedule loses all_reduce(x) {\n    reduce_scatter x over world using ring\n}\n"


class Editor:
    """A client: sends messages, and keeps what comes back."""

    def __init__(self, *arguments):
        self.process: Any = subprocess.Popen([SCHEDC, "lsp", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             env={**os.environ, "HOCKET_SCHEDULE_PATH": SCHEDULES})
        self.messages: queue.Queue = queue.Queue()
        self.number = 0
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        stream = self.process.stdout
        while line := stream.readline():
            name, length = line.split(b":")
            assert name == b"Content-Length", line
            assert stream.readline() == b"\r\n"
            self.messages.put(json.loads(stream.read(int(length))))

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    @staticmethod
    def framed(message):
        content = json.dumps(message).encode() if not isinstance(message, bytes) else message
        return b"Content-Length: %d\r\n\r\n" % len(content) + content

    def send(self, message):
        self.send_bytes(self.framed(message))

    def notify(self, method, **parameters):
        self.send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def take(self):
        return self.messages.get(timeout=PATIENCE)

    def request(self, method, **parameters):
        """Returns the answer, and drops what comes before it."""
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        return self.answer(self.number)

    def answer(self, number):
        while True:
            message = self.take()
            if message.get("id") == number and "method" not in message:
                return message

    def diagnostics(self, until=None):
        """The next ones that are published, or the next that are as wanted."""
        while True:
            message = self.take()
            if message.get("method") == "textDocument/publishDiagnostics":
                found = message["params"]
                if until is None or until(found["diagnostics"]):
                    return found

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=PATIENCE)
        said = self.process.stderr.read().decode()
        self.process.stderr.close()
        self.thread.join(timeout=PATIENCE)
        self.process.stdout.close()
        return status, said


class Conversation(unittest.TestCase):
    def setUp(self):
        self.editor = Editor()
        self.closed = False
        self.addCleanup(lambda: self.closed or self.editor.close())
        self.capabilities = self.editor.request("initialize", processId=None, rootUri=None, capabilities={})["result"]["capabilities"]
        self.editor.notify("initialized")

    def open(self, text, uri="file:///nowhere/mine.sched"):
        self.uri = uri
        self.editor.notify("textDocument/didOpen", textDocument={"uri": uri, "languageId": "sched", "version": 1, "text": text})

    def change(self, *changes, version=2):
        self.editor.notify("textDocument/didChange", textDocument={"uri": self.uri, "version": version}, contentChanges=list(changes))

    def ask(self, method, line=None, character=None):
        parameters = {"textDocument": {"uri": self.uri}}
        if line is not None:
            parameters["position"] = {"line": line, "character": character}
        return self.editor.request("textDocument/" + method, **parameters)["result"]

    def end(self):
        self.assertIsNone(self.editor.request("shutdown")["result"])
        self.editor.send({"jsonrpc": "2.0", "method": "exit"})
        self.closed = True
        return self.editor.close()


class Language(Conversation):
    def test_begins_and_ends(self):
        self.assertEqual(self.capabilities["positionEncoding"], "utf-16")
        self.assertEqual(self.end(), (0, ""))

    def test_says_at_once_what_does_not_parse(self):
        self.open("# 𝄞\nalgorithm a all_gather(x) over g {\n    /* 𝄞 */ x : 0 -> 1\n}\n")
        found = self.editor.diagnostics()
        self.assertEqual((found["uri"], found["version"]), (self.uri, 1))
        (fault,) = found["diagnostics"]
        self.assertEqual((fault["range"]["start"], fault["severity"], fault["source"]), ({"line": 2, "character": 4}, 1, "schedc"))
        self.assertIn("a comment begins with '#'", fault["message"])
        self.change({"text": TEXT})
        self.assertEqual(self.editor.diagnostics()["diagnostics"], [])

    def test_says_later_what_is_not_proved(self):
        self.open(LOSES)
        self.assertEqual(self.editor.diagnostics()["diagnostics"], [])
        (fault,) = self.editor.diagnostics(until=bool)["diagnostics"]
        self.assertIn("loses all_reduce on 2", fault["message"])
        self.assertLessEqual(fault["range"]["start"]["line"], 1)
        self.change({"text": TEXT})
        self.assertEqual(self.editor.diagnostics()["diagnostics"], [])

    def test_what_a_right_schedule_does_not_need_is_a_warning(self):
        self.open("schedule idle all_reduce(x) {\n    let unused = 1\n    all_reduce x over world using ring\n}\n")
        (warning,) = self.editor.diagnostics(until=bool)["diagnostics"]
        self.assertEqual((warning["severity"], warning["code"]), (2, "unused"))
        self.assertIn("unused", warning["message"])
        self.assertEqual(warning["range"]["start"]["line"], 1)

    def test_a_proof_that_takes_long_does_not_delay_answers(self):
        rounds = "schedule slow all_reduce(x) { for i in 0 ..< 4000000 { let a = i } reduce_scatter x over world all_gather x over world }\n"
        self.open(rounds * 1)
        for version in range(2, 30):
            self.change({"text": rounds.replace("4000000", str(3999000 + version))}, version=version)
        self.assertEqual(self.ask("documentSymbol")[0]["name"], "slow")
        self.change({"text": TEXT}, version=40)
        while self.editor.diagnostics()["version"] != 40:
            pass
        self.assertEqual(self.end()[0], 0)

    def test_changes_are_counted_in_utf_16(self):
        self.open("# 𝄞é\nalgorithm a all_gather(x) over g {}\n")
        self.editor.diagnostics()
        place = {"line": 0, "character": 5}
        self.change({"range": {"start": {"line": 0, "character": 4}, "end": place}, "text": "ä\nsyntax"})
        (fault,) = self.editor.diagnostics()["diagnostics"]
        self.assertEqual(fault["range"]["start"], {"line": 1, "character": 0})
        # Two changes at once, the second counted in the text after the first.
        self.change({"range": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 6}}, "text": ""},
                    {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}, "text": ""}, version=3)
        self.assertEqual(self.editor.diagnostics()["diagnostics"], [])

    def test_a_character_of_two_units_is_passed_as_two(self):
        self.open("# 𝄞é\nalgorithm  a all_gather(x) over g {}\n")
        self.change({"range": {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}}, "text": "ä"})
        (edit,) = self.ask("formatting")
        self.assertEqual(edit["newText"], "# 𝄞ä\nalgorithm a all_gather(x) over g {}\n")

    def test_hover_says_what_names_mean(self):
        self.open(TEXT)

        def said(line, character):
            answer = self.ask("hover", line, character)
            return answer and answer["contents"]["value"]
        self.assertIn("let f(i) = i + step", said(5, 28))     # f(r)
        self.assertIn("step = 1", said(2, 19))                # step
        self.assertIn("for s in 0 ..< g.size - 1", said(5, 18))
        self.assertIn("each r in g", said(5, 14))
        self.assertIn("number of members", said(3, 22))       # .size
        self.assertIn("each rank its piece of x, combined", said(9, 6))  # reduce_scatter
        self.assertIn("one round after the other", said(3, 5).lower())
        self.assertIn("ring.sched:3", said(9, 39))            # using ring: the library's
        self.assertIn("algorithm mine all_gather(x; step = 1)", said(10, 39))
        self.assertIsNone(said(7, 0))

    def test_definitions_are_found_here_and_in_the_library(self):
        self.open(TEXT)
        here = self.ask("definition", 10, 40)
        self.assertEqual(here, [{"uri": self.uri, "range": {"start": {"line": 1, "character": 10}, "end": {"line": 1, "character": 14}}}])
        self.assertEqual(self.ask("definition", 5, 28)[0]["range"]["start"], {"line": 2, "character": 8})
        (there,) = self.ask("definition", 9, 40)
        self.assertEqual(there["range"]["start"], {"line": 2, "character": 10})
        path = there["uri"].removeprefix("file://")
        self.assertTrue(os.path.samefile(path, os.path.join(SCHEDULES, "ring.sched")), path)
        self.assertIsNone(self.ask("definition", 3, 22))

    def test_what_is_imported_is_known_also_while_the_text_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "far.sched").write_text("# far\nalgorithm far all_gather(x) over g where g.size == 1 { }\n")
            text = 'import "far.sched"\nschedule near all_reduce(x) {\n    all_gather x over world using far\n'
            self.open(text, (path / "near.sched").as_uri())
            (there,) = self.ask("definition", 2, 36)
            self.assertEqual(there["range"]["start"], {"line": 1, "character": 10})
            self.assertTrue(os.path.samefile(there["uri"].removeprefix("file://"), path / "far.sched"))
            self.assertIn("algorithm far all_gather(x)", self.ask("hover", 2, 36)["contents"]["value"])
            self.assertIn("another file", self.ask("hover", 0, 2)["contents"]["value"])
            self.assertIn("far", {item["label"] for item in self.ask("completion", 2, 34)})
            # An import that is wrong takes nothing else away.
            self.change({"text": text.replace("far.sched", "gone.sched")})
            self.assertIsNone(self.ask("definition", 2, 36))
            self.assertIn("ring", {item["label"] for item in self.ask("completion", 2, 34)})

    def test_symbols_are_the_definitions(self):
        self.open(TEXT)
        self.assertEqual([(one["name"], one["detail"], one["range"]["start"]["line"], one["range"]["end"]["line"]) for one in self.ask("documentSymbol")],
                         [("mine", "algorithm all_gather", 1, 6), ("whole", "schedule all_reduce", 8, 11)])

    def test_completion_has_what_is_known_there(self):
        self.open(TEXT)

        def labels(line, character):
            return {item["label"] for item in self.ask("completion", line, character)}
        inside = labels(5, 12)
        self.assertLessEqual({"x", "g", "step", "f", "s", "r", "xor", "log2_up", "reduce_scatter"}, inside)
        self.assertNotIn("whole", inside)
        self.assertFalse({"s", "r", "f", "step"} & labels(9, 4))
        self.assertEqual(labels(3, 22), {"size", "count", "reversed", "part"})
        algorithms = labels(10, 38)
        self.assertLessEqual({"mine", "ring", "direct"}, algorithms)
        self.assertFalse({"for", "halving"} & algorithms)
        # Also in a text that does not parse, because somebody writes it.
        self.change({"text": TEXT.split("each")[0] + "each q in g\n            x[q] : "})
        self.assertLessEqual({"q", "s", "x", "f"}, labels(5, 19))

    def test_formatting_is_that_of_fmt(self):
        self.open("# 𝄞\nalgorithm  a all_gather(x) over g {\n}")
        (edit,) = self.ask("formatting")
        self.assertEqual(edit, {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 2, "character": 1}},
                                "newText": "# 𝄞\nalgorithm a all_gather(x) over g {}\n"})
        self.change({"text": edit["newText"]})
        self.assertEqual(self.ask("formatting"), [])
        self.change({"text": "algorithm"})
        self.assertIsNone(self.ask("formatting"))

    def test_a_closed_document_has_no_diagnostics(self):
        self.open("algorithm")
        self.assertEqual(len(self.editor.diagnostics()["diagnostics"]), 1)
        self.editor.notify("textDocument/didClose", textDocument={"uri": self.uri})
        self.assertEqual(self.editor.diagnostics()["diagnostics"], [])
        self.assertEqual(self.editor.request("textDocument/hover", textDocument={"uri": self.uri}, position={"line": 0, "character": 0})["error"]["code"], -32602)

    def test_uris_are_paths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a b%é.sched")
            path.write_text(LOSES)
            self.open(LOSES, uri=path.as_uri())
            (fault,) = self.editor.diagnostics(until=bool)["diagnostics"]
            self.assertIn("loses", fault["message"])
        self.open(LOSES, uri="untitled:Untitled-1")
        found = self.editor.diagnostics(until=bool)
        self.assertEqual(found["uri"], "untitled:Untitled-1")


class Protocol(Conversation):
    def test_messages_may_come_in_pieces_and_together(self):
        request = self.editor.framed({"jsonrpc": "2.0", "id": 90, "method": "textDocument/none"})
        for byte in request:
            self.editor.send_bytes(bytes([byte]))
        self.assertEqual(self.editor.answer(90)["error"]["code"], -32601)
        self.editor.send_bytes(request.replace(b"90", b"91") + request.replace(b"90", b"92"))
        self.assertEqual([self.editor.take()["id"], self.editor.take()["id"]], [91, 92])
        self.editor.send_bytes(b"Content-Type: text\r\ncontent-length:  2\r\n\r\n{}")
        self.assertEqual(self.editor.take()["error"]["code"], -32600)

    def test_what_is_wrong_is_refused_and_the_conversation_goes_on(self):
        for content, code in ((b"{", -32700), (b"\xff\xfe", -32700), (b"[]", -32600), (b"1", -32600), (b'{"id": 1}', -32600),
                              (b'{"id": 1, "method": 2}', -32600), (b"[" * 100000, -32700)):
            self.editor.send(content)
            self.assertEqual(self.editor.take()["error"]["code"], code, content[:40])
        wrong: list[dict[str, Any]] = [{}, {"textDocument": 1}, {"textDocument": {"uri": 3}}, {"textDocument": {"uri": "file:///other"}}]
        for parameters in wrong:
            self.assertEqual(self.editor.request("textDocument/documentSymbol", **parameters)["error"]["code"], -32602)
        self.open(TEXT)
        for position in ({}, {"line": -1, "character": "a"}):
            self.assertIn("error", self.editor.request("textDocument/hover", textDocument={"uri": self.uri}, position=position))
        beyond = self.editor.request("textDocument/hover", textDocument={"uri": self.uri}, position={"line": 10**6, "character": 10**9})
        self.assertIn("result", beyond)
        self.editor.notify("textDocument/didChange", contentChanges=3)
        self.editor.notify("$/none")
        self.assertEqual(self.end()[0], 0)

    def test_a_cancelled_request_is_not_answered(self):
        ask = {"jsonrpc": "2.0", "id": 50, "method": "textDocument/none"}
        cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 50}}
        self.editor.send_bytes(self.editor.framed(ask) + self.editor.framed(cancel))
        self.assertEqual(self.editor.answer(50)["error"]["code"], -32800)
        # Of what was answered already, nothing is said.
        self.editor.send(cancel)
        self.assertEqual(self.end()[0], 0)

    def test_after_shutdown_only_exit_is_taken(self):
        self.editor.request("shutdown")
        self.assertEqual(self.editor.request("shutdown")["error"]["code"], -32600)


class Ends(unittest.TestCase):
    def ends(self, data, said, status=1):
        editor = Editor()
        editor.send_bytes(data)
        editor.process.wait(timeout=PATIENCE)
        try:
            result = editor.close()
        except BrokenPipeError:
            result = editor.process.returncode, ""
        self.assertEqual(result[0], status)
        self.assertIn(said, result[1])

    def test_headers_that_cannot_be_read_end_it(self):
        self.ends(b"Content-Length: 99999999999\r\n\r\n", "a message of")
        self.ends(b"Content-Length: 20000000\r\n\r\n", "the most are 16777216")
        self.ends(b"Content-Length: x\r\n\r\n", "no number of bytes")
        self.ends(b"Content-Length: -1\r\n\r\n", "no number of bytes")
        self.ends(b"Other: 1\r\n\r\n", "no Content-Length")
        self.ends(b"nothing\r\n\r\n", "has no ':'")
        self.ends(b"x" * 5000, "a header of more than 4096 bytes")

    def test_the_end_of_the_stream_is_the_end(self):
        editor = Editor()
        self.assertEqual(editor.close()[0], 1)

    def test_nothing_is_answered_before_initialize(self):
        editor = Editor()
        self.assertEqual(editor.request("shutdown")["error"]["code"], -32002)
        editor.notify("exit")
        self.assertEqual(editor.close()[0], 1)


if __name__ == "__main__":
    SCHEDC, SCHEDULES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
