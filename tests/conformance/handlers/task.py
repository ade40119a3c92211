"""Handler of the fixture tools that become tasks: one job line in, lines out (toolcrib-tool(5))."""
import json
import sys
import time

arguments = json.loads(sys.stdin.readline())["arguments"]
if sys.argv[1] == "greet":
    said = {"content": [{"type": "text", "text": f"Hello, {arguments.get('name', 'World')}!"}]}
elif sys.argv[1] == "slow":
    time.sleep(arguments.get("seconds", 0))
    said = {"content": [{"type": "text", "text": "done"}]}
elif sys.argv[1] == "fail":
    time.sleep(1)
    said = {"content": [{"type": "text", "text": "the job failed"}], "isError": True}
else:
    time.sleep(0.2)
    print(json.dumps({"error": {"code": -32603, "message": "the job broke the protocol"}}))
    sys.exit()
print(json.dumps({"result": said}))
