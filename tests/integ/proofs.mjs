// node proofs.mjs VERIFY.MJS: of each line {keys, proof, opening, old} of standard input what verify.mjs makes of it, as verify.py would
// say it: {status, text}.
import readline from "node:readline";
const v = await import(process.argv[2]);
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { keys, proof, opening, old } = JSON.parse(line);
  let status = 0, text = "";
  try {
    const pinned = await v.parseKeys(keys);
    if (old !== undefined) {
      const { before, note } = await v.checkGrowth(proof, old, pinned);
      text = `PROVED ${v.safe(note.origin)} of size ${note.size} goes on behind size ${before.size}\n`;
    } else {
      const got = await v.checkProof(proof, pinned);
      text = `PROVED record ${got.index} of ${v.safe(got.note.origin)}, in a log of ${got.note.size}\n` +
        v.told(got.record).map(([name, said]) => `  ${name} ${said}\n`).join("");
      if (opening !== undefined) {
        const opened = await v.checkOpening(opening, got);
        for (const [what, value] of opened) text += `OPENED ${what}: ${v.safe(new TextDecoder().decode(value))}\n`;
        status = opened.length ? 0 : 5;
      }
    }
  } catch (error) {
    if (!(error instanceof v.Refused)) throw error;
    status = 4;
    text = error.message;
  }
  console.log(JSON.stringify({ status, text }));
}
