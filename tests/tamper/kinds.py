"""What a row of the table of tamperings says.  test_tampering.py has the kinds A-T01 to A-T59; each file beside it that has
a list KINDS adds more, and imports nothing but this file and tamperings.py:

    import tamperings as t
    from kinds import ALWAYS, FOUND, MISSED, UNCHECKED, Kind

    def trigger(s, rnd):
        '''A trigger that undoes revocations.'''
        s.triggers.append("CREATE TRIGGER ...")

    KINDS = [Kind("A-T60", trigger, each=("SCHEMA",), never=("LEAF",))]

`tamper(s, rnd)` gets a tamperings.Store, which is a copy of one store's file, and all chance there is; it returns False
when this chance gives nothing to do.  Its docstring (or `what`) is the line of the table.

`found` says who sees it with which evidence: E0 the store and pinned keys; E1 the signer's state as well; E2 old and E2
new a checkpoint that was taken away, one epoch old or the newest.

    found=ALWAYS                                        both verifiers with each evidence, the server too
    found=(MISSED, FOUND, MISSED, FOUND)                the same cells for both; the server is as E1
    found={"tv": ALWAYS, "py": (UNCHECKED,) * 4}        tv toolcrib-verify, py contrib/verify/verify.py,
    found={"py": UNCHECKED, "av": MISSED}               av `toolcrib audit verify`; one cell stands for all four

Who is left out of such a table is as tv, and that is ALWAYS.  A cell is one of

    FOUND       exit 4; of av also a server that refuses to start on this store
    REFUSED     exit 3: it cannot be read
    SEEN        exit 3 or 4
    UNCHECKED   exit 5, and nothing bad: what was changed was not looked at, and that is said
    MISSED      exit 0 or 5

`each`, `one_of`, `never` are codes of findings: all of these, at least one, none of these.  They are asked of each verifier
whose cell of E1 is FOUND, and may be given by verifier as well: each={"tv": ("SCHEMA",), "py": ("SCHEMA", "INDEX")}.
`keys` False: the verifiers run without --keys.  `form`: of which store it gets a copy: "rows"; "blocks", whose records are in
blocks but for the newest; "leftovers", where their rows are there as well; "sealed", another store, whose records are in sealed files but
for the newest."""
import collections

FOUND, MISSED, UNCHECKED, REFUSED, SEEN = True, False, "not checked", "refused", "seen"
ALWAYS, NEVER, NOW = (FOUND,) * 4, (MISSED,) * 4, (MISSED, MISSED, MISSED, FOUND)
VERIFIERS = ("tv", "py", "av")
EVIDENCE = ("E0", "E1", "E2 old", "E2 new")
STATUS = {FOUND: {4}, MISSED: {0, 5}, UNCHECKED: {5}, REFUSED: {3}, SEEN: {3, 4}}
SERVED = {FOUND: {1, 3, 4}, MISSED: {0, 5}, UNCHECKED: {5}, REFUSED: {1, 3}, SEEN: {1, 3, 4}}         # 1: it refused to start


def accepted(verifier):
    return SERVED if verifier == "av" else STATUS


class Kind(collections.namedtuple("Kind", "id tamper found each one_of never what keys form",
                                  defaults=(ALWAYS, (), (), (), None, True, "rows"))):
    def cells(self, verifier):
        """What this verifier is to see: four cells, of the server one."""
        said = self.found if isinstance(self.found, dict) else {"tv": self.found}
        first = self.wide(said.get("tv", ALWAYS))
        if verifier == "av":
            return (said["av"] if "av" in said else first[1],)
        return self.wide(said.get(verifier, first))

    @staticmethod
    def wide(cells):
        return cells if isinstance(cells, tuple) else (cells,) * 4

    def codes(self, which, verifier):
        said = getattr(self, which)
        return set(said.get(verifier, ()) if isinstance(said, dict) else said)

    def title(self):
        words = " ".join((self.what or self.tamper.__doc__ or self.tamper.__name__.replace("_", " ")).split())
        return words.split(". ")[0].rstrip(".")

    def wrong(self, verifier, found):
        """What of this is not as it should be; found: (exit status, codes) for each cell, None for one that was not looked at."""
        cells = self.cells(verifier)
        said = [f"{verifier} {name}: exit {one[0]}, not {cell}: {sorted(one[1])}"
                for name, cell, one in zip(EVIDENCE if len(cells) > 1 else ("E1",), cells, found)
                if one and one[0] not in accepted(verifier)[cell]]
        if verifier == "av" or cells[1] is not FOUND or not found[1]:
            return said
        codes, one_of = found[1][1], self.codes("one_of", verifier)
        if not self.codes("each", verifier) <= codes or one_of and not one_of & codes or self.codes("never", verifier) & codes:
            said.append(f"{verifier} found it as {sorted(codes)}")
        return said
