"""Real programs run as tools: the filter of system calls, which allows what is known, has what they need (HARDENING 1.2).
What is not installed is skipped, by name."""
import json
import pathlib
import shutil
import subprocess
import tempfile

import crib

PATH = "/usr/bin:/bin:/usr/local/bin"
C = '#include <stdio.h>\nint main(void) { puts("it runs"); return 0; }\n'
GO = 'package main\nimport ("fmt"; "os"; "sync")\nfunc main() { var w sync.WaitGroup; for i := 0; i < 9; i++ { w.Add(1); go w.Done() }\n' \
     'w.Wait(); os.WriteFile("x", []byte("it"), 0600); os.Chmod("x", 0640); b, _ := os.ReadFile("x"); fmt.Println(string(b) + " runs") }\n'
RUST = 'fn main() { let t = std::thread::spawn(|| std::fs::write("x", "it").unwrap()); t.join().unwrap();\n' \
       'println!("{} runs", std::fs::read_to_string("x").unwrap()); }\n'

# Name of the program: its arguments, what it says.  A text is a script of the shell, in which $P is the program.
PROGRAMS = {
    "sh": ("$P -c 'echo it runs' | cat; mkdir d; mv d e; rm -r e", "it runs"),
    "bash": ("$P -c 'set -o pipefail; cat <(echo it) <<<x; [[ $(printf a) = a ]] && echo runs'", "it\nruns"),
    "python3": (["-c", "import os, subprocess, sqlite3, ssl, tempfile, threading, multiprocessing, shutil, time\n"
                       "t = threading.Thread(target=time.sleep, args=(0,)); t.start(); t.join()\n"
                       "d = tempfile.mkdtemp(); f = os.path.join(d, 'a'); open(f, 'w').write('x'); os.chmod(f, 0o755)\n"
                       "shutil.copy2(f, f + 'b'); os.utime(f, (1, 1)); shutil.rmtree(d)\n"
                       "p = multiprocessing.get_context('fork').Process(target=print, args=('it',)); p.start(); p.join()\n"
                       "print(subprocess.run(['echo', 'runs'], capture_output=True, text=True).stdout)"], "it\nruns"),
    "perl": (["-e", "use POSIX; use File::Copy; open F, '>x'; close F; chmod 0640, 'x'; copy('x', 'y'); print `echo it runs`;"], "it runs"),
    "node": (["-e", "const fs = require('fs'); fs.writeFileSync('x', 'it'); fs.copyFileSync('x', 'y'); fs.chmodSync('x', 0o600);"
                    "require('child_process').exec('echo runs', (e, out) => console.log(fs.readFileSync('y', 'utf8'), out));"], "it runs"),
    "ruby": (["-e", "File.write('x', 'it'); File.chmod(0600, 'x'); t = Thread.new { sleep 0 }; t.join; puts File.read('x') + ' ' + `echo runs`"],
             "it runs"),
    "php": (["-r", "file_put_contents('x', 'it'); chmod('x', 0600); echo file_get_contents('x'), ' ', shell_exec('echo runs');"], "it runs"),
    "lua": (["-e", "print('it runs')"], "it runs"),
    "java": ("$P -Xmx256m -version 2>&1", "ersion"),
    "git": ("export GIT_CONFIG_NOSYSTEM=1; $P init -q . && echo x >x && $P add x && $P -c user.name=x -c user.email=x@y commit -qm x && $P gc -q && $P log --oneline | cat", " x"),
    "curl": (["--version"], "libcurl"),
    "openssl": ("echo it | $P dgst -sha256 && $P genpkey -algorithm ed25519 -out k && $P pkey -in k -noout && echo runs", "runs"),
    "sqlite3": (["x.db", "PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES('it runs'); SELECT * FROM t; VACUUM;"], "it runs"),
    "jq": (["-n", '"it runs"'], "it runs"),
    "awk": (["BEGIN { while ((\"echo it runs\" | getline x) > 0) print x }"], "it runs"),
    "sed": ("echo it walks >x && $P -i s/walks/runs/ x && cat x", "it runs"),
    "tar": ("mkdir a && echo it runs >a/x && $P cf a.tar a && rm -r a && $P xpf a.tar && cat a/x", "it runs"),
    "gzip": ("echo it runs >x && $P x && $P -d x.gz && cat x", "it runs"),
    "xz": ("echo it runs >x && $P -T2 x && $P -d x.xz && cat x", "it runs"),
    "ffmpeg": (["-version"], "ffmpeg version"),
    "convert": ("$P -version", "ImageMagick"),
    "pandoc": ("echo '*it runs*' | $P -t html", "<em>it runs</em>"),
    "psql": (["--version"], "psql"),
    "ssh": ("$P -V 2>&1", "OpenSSH"),
    "ssh-keygen": ("$P -q -t ed25519 -N '' -f k && echo runs", "runs"),
    "gpg": ("$P --homedir . --version", "gpg (GnuPG)"),
    "make": ("printf 'all: a b\\na b:\\n\\t@echo it runs\\n' >Makefile && $P -j2", "it runs\nit runs"),
    "gcc": ("printf '#include <stdio.h>\\nint main(void) { return puts(\"it runs\") < 0; }' >a.c && $P -pipe -O1 a.c -o a && ./a", "it runs"),
    "cp": ("echo it runs >x && $P -a x y && $P -p y z && cat z && touch -d 2000-01-01 z && ls -l z | grep -c 2000", "it runs\n1"),
    "find": ("mkdir d && $P . -name d -exec echo it runs {} +", "it runs"),
    "sort": ("echo 'it runs' | $P --parallel=4 -S 1M", "it runs"),
    "mktemp": ("x=$($P) && echo it runs >$x && cat $x", "it runs"),
}


def found(name):
    """Its path without links of a version manager, which lie where no tool reads."""
    path = shutil.which(name, path=PATH)
    return path if path and pathlib.Path(path).resolve().is_relative_to("/usr") else None


class Programs(crib.Case):
    def setUp(self):
        super().setUp()
        c = self.crib.init()
        self.key = c.tenant("acme", "*")
        c.start()
        self.peer = c.http(self.key)
        self.addCleanup(self.peer.close)

    def run_tool(self, name, argv, sandbox="{}"):
        name = name.replace("-", "_")
        self.crib.tool(crib.tool_yaml(name, f"{{type: exec, argv: {json.dumps(argv)}, stdin: none, output: text, sandbox: {sandbox}}}",
                                      extra="limits: {timeout: 60s}\n"), f"{name}.yaml")
        result = self.peer.call(name, {}, crib.MODERN)["result"]
        return result.get("isError", False), result["content"][0]["text"]

    def works(self, argv):
        """Outside of any sandbox."""
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  env={"PATH": PATH, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"}).returncode == 0

    def escaped(self, text):
        """Braces are places of templates."""
        return text.replace("{", "{{").replace("}", "}}")

    def test_programs_that_people_use_run_as_tools(self):
        for name, (what, says) in PROGRAMS.items():
            path = found(name)
            with self.subTest(program=name):
                if not path:
                    print(f"skipped: {name} is not installed")
                    continue
                argv = ["/bin/sh", "-c", "set -e; " + what.replace("$P", path)] if isinstance(what, str) else [path, *what]
                if not self.works(argv):
                    print(f"skipped: {name} does not work here")
                    continue
                failed, text = self.run_tool(f"t-{name}", list(map(self.escaped, argv)))
                self.assertFalse(failed, text)
                self.assertIn(says, text)

    def built(self, compiler, source, *argv, suffix):
        if not shutil.which(compiler):
            print(f"skipped: {compiler} is not installed")
            return
        folder = self.crib.dir / f"built-{compiler}"
        folder.mkdir()
        (folder / f"a{suffix}").write_text(source)
        done = subprocess.run([compiler, *argv, "-o", "a", f"a{suffix}"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"skipped: {compiler} cannot build here: {done.stderr[-200:]}")
            return
        failed, text = self.run_tool(f"t-{compiler}", [str(folder / "a")])
        self.assertEqual((failed, text.strip()), (False, "it runs"), compiler)

    def test_programs_of_other_languages_and_libraries_run_as_tools(self):
        self.built("go", GO, "build", suffix=".go")
        self.built("rustc", RUST, "-O", suffix=".rs")
        self.built("musl-gcc", C, "-static", suffix=".c")
        self.built("cc", C, "-static", suffix=".c")


if __name__ == "__main__":
    crib.main()
