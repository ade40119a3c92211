"""Receivers of what sinks send, each a process that can be killed and started again at its port: python3 away.py KIND PORT FOLDER.

They are those of the tests of sinks, as strict as there; what they have said yes to is in FOLDER/KIND, a line for each batch: its name,
a blank, its bytes in base64.  A batch without the end of its line was not said yes to, and is cut off by the next start.  What is wrong
is in FOLDER/KIND.wrong."""
import base64
import json
import pathlib
import signal
import sys
import urllib.parse

import otlp
import test_sink_http
import test_sink_s3
import test_sinks


class Journal:
    def __init__(self, path):
        self.file = open(path, "ab+", buffering=0)
        self.file.seek(0)
        kept = self.file.read()
        self.file.truncate(kept.rfind(b"\n") + 1)
        self.names = {line.partition(b" ")[0].decode() for line in kept[:kept.rfind(b"\n") + 1].splitlines()}

    def add(self, name, data):
        self.file.write(name.encode() + b" " + base64.b64encode(data) + b"\n")
        self.names.add(name)


def batches(path):
    """(name, bytes) of each batch, in the order of their arrival."""
    with open(path, "rb") as f:
        for line in f:
            name, _, text = line.partition(b" ")
            yield name.decode(), base64.b64decode(text)


class Wrong(list):
    """What is wrong with what came: on disk, since nobody asks this process."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def append(self, what):
        with open(self.path, "a") as f:
            f.write(json.dumps(what) + "\n")


class Events(list):
    """Those of a collector that are indexed now."""

    def __init__(self, journal):
        super().__init__()
        self.journal = journal

    def __iadd__(self, events):
        if events:
            self.journal.add("-", "\n".join(json.dumps(event) for event in events).encode())
        return self


class Taken(dict):
    """What is not indexed yet, by channel and number: of what is, the number alone is kept."""

    def get(self, place, default):
        events = super().get(place, default)
        if events:
            self[place] = []
        return events


class Objects(dict):
    """Of a bucket, a file each."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if path.suffix != ".part":
                head, _, body = path.read_bytes().partition(b"\n")
                super().__setitem__(urllib.parse.unquote(path.name), (json.loads(head), body))

    def __setitem__(self, name, what):
        part = self.folder / "new.part"
        part.write_bytes(json.dumps(what[0]).encode() + b"\n" + what[1])
        part.rename(self.folder / urllib.parse.quote(name, safe=""))
        super().__setitem__(name, what)


def hook(port, folder, wrong):
    journal = Journal(folder / "hook")
    receiver = test_sinks.Receiver(port)
    receiver.wrong = wrong

    def does(handler):
        name = handler.headers["webhook-id"]
        if name not in journal.names:           # what is there was taken
            journal.add(name, handler.body)
        receiver.batches.clear()
        handler.say(204)
    receiver.does = does
    return receiver.port


def hec(port, folder, wrong):
    splunk = test_sink_http.Splunk(port=port)
    splunk.events, splunk.taken, splunk.wrong = Events(Journal(folder / "hec")), Taken(), wrong
    return splunk.port


def logs(port, folder, wrong):
    journal = Journal(folder / "logs")
    collector = otlp.Collector(path="/v1/logs", port=port)

    def say():
        return 200, {}, b""

    class Bodies(list):
        def append(self, body):
            try:
                otlp.logs(body)
            except (otlp.Broken, IndexError) as broken:
                wrong.append(str(broken))
            journal.add("-", body)
    collector.say, collector.bodies = say, Bodies()
    collector.headers = type("Headers", (list,), {"append": lambda self, it: None})()
    return collector.server_address[1]


def lake(port, folder, wrong):
    bucket = test_sink_s3.Bucket(port)
    bucket.objects, bucket.wrong = Objects(folder / "lake"), wrong
    bucket.asked = type("Asked", (list,), {"append": lambda self, it: None})()
    return bucket.port


def main(kind, port, folder):
    folder = pathlib.Path(folder)
    print({"hook": hook, "hec": hec, "logs": logs, "lake": lake}[kind](int(port), folder, Wrong(folder / f"{kind}.wrong")), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
