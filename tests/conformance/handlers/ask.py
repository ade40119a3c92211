"""Handler of the fixture tools and prompts that ask the client: one job line in, lines out (toolcrib-tool(5)).

A plan is a list of rounds; a round maps keys to requests.  The first run asks the first round; answers that satisfy
all of its requests lead to the next one, anything else makes the round be asked again, and behind the last round the
tool answers.  Nothing is remembered between two runs: a plan with state gets back in `state` what came before."""
import json
import re
import sys

TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list}
CAPABILITY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}


def form(message, required, **properties):
    """A form of these properties; required: names, separated by blanks."""
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(text, tokens):
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


def text(**more):
    return {"type": "string", **more}


def titled(key, names):
    return [{"const": f"value{i + 1}", "title": f"{name} {key}"} for i, name in enumerate(names)]


class Plan:
    """any_action: every action answers a form; state: answers count only with the state of their round; declared: only
    what the client declared is asked."""

    def __init__(self, then, *rounds, any_action=False, state=False, declared=False):
        self.then, self.rounds = then, rounds
        self.any_action, self.state, self.declared = any_action, state, declared


ROOTS = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", "name", name=text())
CONFIRM = form("Please confirm", "ok", ok={"type": "boolean"})
ORDER = ["First", "Second", "Third"]
OPTIONS = ["option1", "option2", "option3"]
ELICITED = "Elicitation completed: action={form/action}, content={form/content}"
ASKS = "test_input_required_result_"
PLANS = {
    "test_sampling": Plan("LLM response: {llm/content/text}", {"llm": sample("{arguments/prompt}", 100)}),
    "test_elicitation": Plan(
        "User response: action={user/action}, content={user/content}",
        {"user": form("{arguments/message}", "username email", username=text(description="User's response"),
                      email=text(description="User's email address"))}, any_action=True),
    "test_elicitation_sep1034_defaults": Plan(
        ELICITED,
        {"form": form("Please review the defaults", "", name=text(default="John Doe"),
                      age={"type": "integer", "default": 30}, score={"type": "number", "default": 95.5},
                      status=text(enum=["active", "inactive", "pending"], default="active"),
                      verified={"type": "boolean", "default": True})}, any_action=True),
    "test_elicitation_sep1330_enums": Plan(
        ELICITED,
        {"form": form("Please select options", "", untitledSingle=text(enum=OPTIONS),
                      titledSingle=text(oneOf=titled("Option", ORDER)),
                      legacyEnum=text(enum=["opt1", "opt2", "opt3"], enumNames=["Option One", "Option Two", "Option Three"]),
                      untitledMulti={"type": "array", "items": text(enum=OPTIONS)},
                      titledMulti={"type": "array", "items": {"anyOf": titled("Choice", ORDER)}})}, any_action=True),
    ASKS + "elicitation": Plan("Hello, {user_name/content/name}!", {"user_name": NAME}),
    ASKS + "sampling": Plan("Sampling response: {question/content/text}",
                            {"question": sample("What is the capital of France?", 100)}),
    ASKS + "list_roots": Plan("Client roots: {client_roots/roots}", {"client_roots": ROOTS}),
    ASKS + "request_state": Plan("state-ok", {"confirm": CONFIRM}, state=True),
    ASKS + "multiple_inputs": Plan(
        "{greeting/content/text} {user_name/content/name}, roots: {client_roots/roots}",
        {"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}, state=True),
    ASKS + "multi_round": Plan("{step1/content/name} likes {step2/content/color}",
                               {"step1": form("Step 1: What is your name?", "name", name=text())},
                               {"step2": form("Step 2: What is your favorite color?", "color", color=text())}, state=True),
    ASKS + "tampered_state": Plan("integrity-ok", {"confirm": CONFIRM}, state=True),
    ASKS + "capabilities": Plan(
        "done", {"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}, declared=True),
    "confirm_delete": Plan("deleted {arguments/filename}", {"confirm": CONFIRM}, any_action=True),
    "multi_input": Plan("both: {first/content/name}, {second/content/name}", {"first": NAME, "second": NAME}, any_action=True),
    "test_tool_with_task": Plan("Hello, {user_name/content/name}!", {"user_name": NAME}),
    "prompt:" + ASKS + "prompt": Plan("Use the following context: {user_context/content/context}",
                                      {"user_context": form("What context should the prompt use?", "context", context=text())}),
}


def emit(line):
    print(json.dumps(line, separators=(",", ":")), flush=True)


def value_at(path, values):
    """What stands at a path such as user_name/content/name: text as it is, all else as JSON, nothing as ''."""
    for step in path.split("/"):
        if not isinstance(values, dict) or step not in values:
            return ""
        values = values[step]
    return values if isinstance(values, str) else json.dumps(values)


def fill(value, values):
    """Replace {path} in every text of a value."""
    if isinstance(value, str):
        return re.sub(r"\{([\w/]+)\}", lambda match: value_at(match.group(1), values), value)
    if isinstance(value, list):
        return [fill(item, values) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, values) for key, item in value.items()}
    return value


def refuses(request, answer):
    return (request["method"] == "elicitation/create" and isinstance(answer, dict)
            and answer.get("action") in ("decline", "cancel"))


def satisfies(request, answer, any_action):
    if not isinstance(answer, dict):
        return False
    if request["method"] == "sampling/createMessage":
        return isinstance(answer.get("content"), (dict, list))
    if request["method"] == "roots/list":
        return isinstance(answer.get("roots"), list)
    if any_action:
        return isinstance(answer.get("action"), str)
    schema, content = request["params"]["requestedSchema"], answer.get("content")
    return (answer.get("action") == "accept" and isinstance(content, dict)
            and all(isinstance(content.get(key), TYPES[schema["properties"][key]["type"]])
                    for key in schema.get("required", [])))


def main():
    job = json.loads(sys.stdin.buffer.readline())
    plan = PLANS[job["tool"]]
    rounds = plan.rounds
    if plan.declared:
        offered = job["client"]["capabilities"]
        rounds = [{key: asked for key, asked in one.items() if CAPABILITY[asked["method"]] in offered} for one in rounds]

    number, known, given = 0, {}, job.get("answers") or {}
    if plan.state:
        saved = json.loads(job["state"]) if job.get("state") else None
        number, known = (saved["round"], saved["answers"]) if saved else (0, {})
        given = given if saved else {}

    if number < len(rounds):
        asked = rounds[number]
        refused = [key for key in asked if refuses(asked[key], given.get(key))]
        if refused and not plan.any_action:
            emit({"content": {"type": "text", "text": "declined: " + ", ".join(refused)}})
            emit({"result": {"isError": True}})
            return
        if all(satisfies(request, given.get(key), plan.any_action) for key, request in asked.items()):
            known.update((key, given[key]) for key in asked)
            number += 1

    values = {"arguments": job.get("arguments") or {}, **known}
    if number == len(rounds):
        emit({"content": {"type": "text", "text": fill(plan.then, values)}})
        return
    ask = {"requests": fill(rounds[number], values)}
    if plan.state:
        ask["state"] = json.dumps({"round": number, "answers": known}, separators=(",", ":"))
    emit({"ask": ask})


main()
