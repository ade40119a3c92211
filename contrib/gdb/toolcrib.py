"""Commands for gdb: source contrib/gdb/toolcrib.py

crib-list HEAD TYPE MEMBER   the members of an intrusive list (base/list.h), e.g.
                             crib-list eng->calls "struct call" all
crib-map MAP [TYPE]          keys and values of a struct map *, values as TYPE *
crib-call CALL               where a call stands: state, tool, who, outcome, what it waits for
crib-calls ENGINE            a line for each call of a struct call_engine *
struct str and struct err are printed as their text.
"""
import gdb
import gdb.printing


def members(head, type_name, member):
    """Pointers to the structs whose `member` is linked to head."""
    kind = gdb.lookup_type(type_name)
    offset = next(f.bitpos // 8 for f in kind.fields() if f.name == member)
    byte = gdb.lookup_type("char").pointer()
    head = head if head.type.code == gdb.TYPE_CODE_PTR else head.address
    node = head["next"]
    while int(node) and int(node) != int(head):
        yield (node.cast(byte) - offset).cast(kind.pointer())
        node = node["next"]


def pairs(table):
    """(key bytes, value pointer) of a struct map *."""
    gone = gdb.lookup_static_symbol("gone").value().address
    for i in range(int(table["cap"])):
        slot = table["slots"][i]
        if int(slot["p"]) in (0, int(gone)):
            continue
        if table["integers"]:
            yield int(slot["hash"]).to_bytes(8, "little"), slot["p"]
        else:
            pair = slot["p"].cast(gdb.lookup_type("struct pair").pointer())
            size = int(pair["len"])
            yield gdb.selected_inferior().read_memory(int(pair["key"].address), size).tobytes(), pair["value"]


def key_text(key):
    if key and all(32 <= c < 127 for c in key):
        return '"' + key.decode() + '"'
    return str(int.from_bytes(key, "little")) if len(key) == 8 else key.hex()


def text_of(pointer, size=None):
    if pointer.type.strip_typedefs().code == gdb.TYPE_CODE_PTR and not int(pointer):
        return "-"
    return pointer.string(errors="replace", **({} if size is None else {"length": size}))


def call_line(call):
    who = call["who"]
    name = text_of(call["tool_name"], int(call["tool_len"]))
    line = f"{call['state']} {name} call {bytes(int(call['id'][i]) for i in range(16)).hex()}"
    if int(who):
        line += f" of {text_of(who['tenant'])}/{text_of(who['name'])}"
    if int(call["op"]):
        line += ", its handler runs"
    if int(call["ticket"]):
        line += ", has slots or waits for them"
    if call["cancelled"]:
        line += f", cancelled: {call['why']}"
    if int(call["trouble"]):
        line += ", " + str(call["trouble"]["err"])
    return line


class Command(gdb.Command):
    def __init__(self, name, run, usage):
        super().__init__(name, gdb.COMMAND_DATA)
        self.run, self.usage = run, usage

    def invoke(self, line, from_tty):
        try:
            self.run(*gdb.string_to_argv(line))
        except TypeError:
            raise gdb.GdbError("usage: " + self.usage) from None


def crib_list(head, type_name, member):
    for n, found in enumerate(members(gdb.parse_and_eval(head), type_name, member)):
        print(f"[{n}] ({type_name} *){int(found):#x} {found.dereference()}")


def crib_map(table, type_name=None):
    table = gdb.parse_and_eval(table)
    print(f"{table['count']} of {table['cap']} places")
    for key, value in pairs(table):
        print(f"{key_text(key)}: {value.cast(gdb.lookup_type(type_name).pointer()).dereference() if type_name else value}")


def crib_call(call):
    print(call_line(gdb.parse_and_eval(call)))


def crib_calls(engine):
    for call in members(gdb.parse_and_eval(engine)["calls"], "struct call", "all"):
        print(f"(struct call *){int(call):#x} {call_line(call)}")


class StrPrinter:
    """struct str: its bytes, never those of a secret."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        if self.value["secret"]:
            return f"secret of {int(self.value['len'])} bytes"
        tail = " (failed)" if self.value["failed"] else ""
        text = text_of(self.value["p"], int(self.value["len"])) if int(self.value["len"]) else ""
        return f'"{text}"{tail}'


class ErrPrinter:
    """struct err: code, place, message."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        if int(self.value["code"]) == 0:
            return "ok"
        where = text_of(self.value["where"])
        return f"{self.value['code']} at \"{where}\": {text_of(self.value['msg'])}"


printers = gdb.printing.RegexpCollectionPrettyPrinter("toolcrib")
printers.add_printer("str", "^str$", StrPrinter)
printers.add_printer("err", "^err$", ErrPrinter)
gdb.printing.register_pretty_printer(None, printers, replace=True)
Command("crib-list", crib_list, 'crib-list HEAD "struct TYPE" MEMBER')
Command("crib-map", crib_map, 'crib-map MAP ["struct TYPE"]')
Command("crib-call", crib_call, "crib-call CALL")
Command("crib-calls", crib_calls, "crib-calls ENGINE")
