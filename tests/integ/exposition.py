"""A strict reader of what scrapers are told: the text formats of Prometheus (0.0.4) and of OpenMetrics (1.0.0).

read(text, openmetrics) returns a Text, or fails with the line and the rule that it breaks."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|[+-]Inf|NaN")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}
OM_TYPES = {"counter", "gauge", "histogram", "gaugehistogram", "stateset", "info", "summary", "unknown"}
UNITS = ("seconds", "bytes", "ratio")
EXEMPLAR_MAX = 128


class Wrong(AssertionError):
    pass


class Text:
    def __init__(self):
        self.types, self.helps, self.units = {}, {}, {}
        self.samples = {}       # (name, ((label, value), …)) -> number
        self.exemplars = {}     # the same -> (labels, number)

    def get(self, name, **labels):
        """The value of the one series; None when there is none."""
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def series(self, name):
        """All series of a name: their labels as a dict, and their values."""
        return [(dict(labels), value) for (of, labels), value in self.samples.items() if of == name]

    def families(self):
        return set(self.types)


def labels_of(text, at):
    """The labels in braces that begin at text[at]; they, and where they end."""
    found, at = [], at + 1
    while text[at] != "}":
        name = LABEL.match(text, at)
        if not name or not text.startswith('="', name.end()):
            raise Wrong(f"a label is expected at {text[at:]!r}")
        at, value = name.end() + 2, ""
        while text[at] != '"':
            if text[at] == "\\":
                at += 1
                if text[at] not in '\\"n':
                    raise Wrong(f"no such escape: \\{text[at]}")
                value += "\n" if text[at] == "n" else text[at]
            else:
                value += text[at]
            at += 1
        found.append((name.group(), value))
        at += 1
        if text[at] == ",":
            at += 1
            if text[at] == "}":
                raise Wrong("a comma behind the last label")
    if len({name for name, _ in found}) != len(found):
        raise Wrong("a label is there twice")
    return tuple(sorted(found)), at + 1


def number(text):
    if not NUMBER.fullmatch(text):
        raise Wrong(f"no number: {text!r}")
    return float(text.replace("Inf", "inf"))


def suffixes(kind, openmetrics):
    if kind == "counter":
        return ["_total"] if openmetrics else [""]
    if kind == "histogram":
        return ["_bucket", "_count", "_sum"]
    return ["_info"] if kind == "info" else [""]


def sample(line, text, family, openmetrics):
    name = NAME.match(line)
    if not name:
        raise Wrong("a name is expected")
    kind, end = text.types[family], name.end()
    if name.group() not in [family + s for s in suffixes(kind, openmetrics)]:
        raise Wrong(f"{name.group()} stands in the family {family}, a {kind}")
    labels, end = labels_of(line, end) if line[end:end + 1] == "{" else ((), end)
    rest, _, exemplar = line[end:].partition(" # ")
    if not rest.startswith(" ") or " " in rest[1:]:
        raise Wrong(f"one blank and a value are expected, not {rest!r}")
    key, value = (name.group(), labels), number(rest[1:])
    if key in text.samples:
        raise Wrong("the series is there twice")
    if kind in ("counter", "histogram") and (value < 0 or math.isnan(value)):
        raise Wrong("what only grows is not negative")
    if kind == "counter" and not openmetrics and not family.endswith("_total"):
        raise Wrong("a counter ends in _total")
    text.samples[key] = value
    if exemplar:
        if not openmetrics or not (name.group().endswith("_bucket") or kind == "counter"):
            raise Wrong("an exemplar where none may be")
        said, at = labels_of(exemplar, 0)
        if sum(len(k) + len(v) for k, v in said) > EXEMPLAR_MAX:
            raise Wrong("an exemplar of more than 128 characters")
        of, *time = exemplar[at:].strip().split(" ")
        if len(time) > 1:
            raise Wrong("an exemplar has one value and one time")
        text.exemplars[key] = (dict(said), number(of), number(time[0]) if time else None)


def histograms(text):
    """Buckets grow with their bounds up to +Inf, which is the count; each set of labels has its sum."""
    for family in (f for f, kind in text.types.items() if kind == "histogram"):
        sets = {}
        for labels, value in text.series(family + "_bucket"):
            bound = labels.pop("le", None)
            if bound is None:
                raise Wrong(f"{family}: a bucket without le")
            sets.setdefault(tuple(sorted(labels.items())), []).append((number(bound), value, bound))
        for labels, buckets in sets.items():
            if buckets != sorted(buckets) or [b[1] for b in buckets] != sorted(b[1] for b in buckets):
                raise Wrong(f"{family}{dict(labels)}: buckets do not grow")
            if buckets[-1][0] != math.inf or text.samples.get((family + "_count", labels)) != buckets[-1][1]:
                raise Wrong(f"{family}{dict(labels)}: +Inf is not the count")
            if (family + "_sum", labels) not in text.samples:
                raise Wrong(f"{family}{dict(labels)}: there is no sum")
            if any("." not in bound and bound != "+Inf" for _, _, bound in buckets):
                raise Wrong(f"{family}: a bound is no canonical number: {[b[2] for b in buckets]}")
        if {labels for (name, labels) in text.samples if name in (family + "_count", family + "_sum")} - set(sets):
            raise Wrong(f"{family}: a count or sum without buckets")


def comment(line, text, family, openmetrics):
    """A line of metadata; the family that it is about."""
    words = line.split(" ", 3)
    if len(words) < 3 or words[1] not in ("HELP", "TYPE", "UNIT") or not NAME.fullmatch(words[2]):
        raise Wrong("no line of metadata")
    kind, name = words[1], words[2]
    where = {"HELP": text.helps, "TYPE": text.types, "UNIT": text.units}[kind]
    if name in where or (name != family and any(name in of for of in (text.helps, text.types, text.units))):
        raise Wrong(f"{kind} of {name} comes twice, or too late")
    where[name] = words[3] if len(words) > 3 else ""
    if kind == "TYPE" and words[3] not in (OM_TYPES if openmetrics else TYPES):
        raise Wrong(f"no type: {words[3]}")
    if kind == "TYPE" and openmetrics and words[3] == "counter" and name.endswith("_total"):
        raise Wrong("the name of a family has no _total")
    if kind == "UNIT" and (not openmetrics or not name.endswith("_" + words[3])):
        raise Wrong("the unit is not the end of the name")
    if kind == "HELP" and re.search(r'\\(?![\\n"])', where[name]):
        raise Wrong("an escape that is none")
    return name


def read(text, openmetrics=False):
    found, family, sampled = Text(), None, set()
    lines = text.split("\n")
    if lines.pop() != "":
        raise Wrong("the last line does not end")
    if openmetrics and (not lines or lines.pop() != "# EOF"):
        raise Wrong("there is no # EOF")
    for at, line in enumerate(lines, 1):
        try:
            if line.startswith("#"):
                name = comment(line, found, family, openmetrics)
                if name != family and name in sampled:
                    raise Wrong("metadata behind samples")
                family = name
            else:
                if family not in found.types or family not in found.helps:
                    raise Wrong("a sample without TYPE and HELP")
                sample(line, found, family, openmetrics)
                sampled.add(family)
        except (Wrong, IndexError) as e:
            raise Wrong(f"line {at}: {e}: {line}") from None
    histograms(found)
    for name in found.families():
        if openmetrics and name.endswith(tuple("_" + unit for unit in UNITS)) and name not in found.units:
            raise Wrong(f"{name} has no UNIT")
    return found
