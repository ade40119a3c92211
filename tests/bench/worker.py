"""An interpreted tool of the child contract: a line in, a line out, as long as lines come."""
import json
import sys

for line in sys.stdin:
    said = json.loads(line)["arguments"]["text"]
    print(json.dumps({"result": {"structuredContent": {"text": said}}}), flush=True)
