"""An SMTP server for tests that checks what it is told: the order of commands, that nothing is said in clear that should not be."""
import base64
import email
import email.policy
import re
import socket
import ssl
import threading


class Broken(Exception):
    pass


class Server:
    """`tls`: starttls, tls or none.  `answers`: "RCPT" -> an answer in place of the usual one; a function is called with the line."""

    USER, PASSWORD = "toolcrib", "s3kret-of-mail"

    def __init__(self, tls="none", cert=None, auth="PLAIN LOGIN", port=0, answers=None):
        self.tls, self.auth, self.answers = tls, auth, {} if answers is None else answers
        self.messages, self.wrong, self.said, self.dialogs = [], [], [], 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if cert else None
        if cert:
            self.context.load_cert_chain(*cert)
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.open, self.threads = set(), []
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for one in list(self.open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()

    def accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.dialogs += 1
            self.threads.append(threading.Thread(target=self.serve, args=(peer,)))
            self.threads[-1].start()

    def serve(self, peer):
        self.open.add(peer)
        try:
            Dialog(self, peer).run()
        except (Broken, OSError):
            pass
        finally:
            self.open.discard(peer)
            peer.close()


class Dialog:
    def __init__(self, server, peer):
        self.server, self.peer, self.buffer = server, peer, b""
        self.secure = self.known = False

    def fail(self, what):
        self.server.wrong.append(what)
        raise Broken(what)

    def say(self, text):
        self.peer.sendall(text.encode() + b"\r\n")

    def line(self):
        while b"\r\n" not in self.buffer:
            more = self.peer.recv(65536)
            if not more:
                raise Broken("the end")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        if b"\n" in line or b"\r" in line:
            self.fail(f"a bare end of line: {line!r}")
        return line.decode()

    def wrap(self):
        if self.buffer:
            self.fail("bytes before TLS")
        self.server.open.discard(self.peer)
        self.peer = self.server.context.wrap_socket(self.peer, server_side=True)
        self.server.open.add(self.peer)
        self.secure = True

    def answer(self, verb, line, usual):
        own = self.server.answers.get(verb, usual)
        text = own(line) if callable(own) else own
        if text is None:
            raise Broken("hung up")
        self.say(text)
        return text[0] in "23"

    def hello(self, line):
        if not re.fullmatch("EHLO [A-Za-z0-9.-]+", line):
            self.fail(f"no EHLO: {line}")
        offers = ["mail.example.com greets", "8BITMIME"]
        if self.server.tls == "starttls" and not self.secure:
            offers.append("STARTTLS")
        elif self.server.auth:
            offers.append("AUTH " + self.server.auth)
        offers.append("SIZE 1000000")
        self.answer("EHLO", line, "\r\n".join(f"250{'-' if n < len(offers) - 1 else ' '}{one}" for n, one in enumerate(offers)))

    def identify(self, line):
        if self.server.context and not self.secure:
            self.fail("a password in clear")
        if line.startswith("AUTH PLAIN "):
            _, user, password = base64.b64decode(line[11:], validate=True).decode().split("\0")
        else:
            self.say("334 VXNlcm5hbWU6")
            user = base64.b64decode(self.line(), validate=True).decode()
            self.say("334 UGFzc3dvcmQ6")
            password = base64.b64decode(self.line(), validate=True).decode()
        self.known = (user, password) == (Server.USER, Server.PASSWORD)
        self.answer("AUTH", line, "235 welcome" if self.known else "535 no")

    def take(self, sender, to):
        if not self.answer("DATA", "", "354 go on"):
            return
        lines = []
        while (line := self.line()) != ".":
            if len(line) > 998:
                self.fail("a line of more than 998 characters")
            lines.append(line[1:] if line.startswith(".") else line)
        if self.answer("END", "", "250 queued"):
            message = email.message_from_string("\r\n".join(lines) + "\r\n", policy=email.policy.SMTP)
            self.server.messages.append((sender, to, message, "\r\n".join(lines)))

    def run(self):
        if self.server.tls == "tls":
            self.wrap()
        self.answer("GREETING", "", "220 mail.example.com ready")
        sender, to = None, []
        while True:
            line = self.line()
            self.server.said.append((line.split(" ")[0].split(":")[0], self.secure))
            verb = line[:4].upper()
            if verb == "EHLO":
                self.hello(line)
            elif verb == "STAR":
                if self.answer("STARTTLS", line, "220 go on"):
                    self.wrap()
            elif verb == "AUTH":
                self.identify(line)
            elif verb == "MAIL":
                if self.server.auth and not self.known:
                    self.fail("mail of somebody unknown")
                sender = re.fullmatch(r"MAIL FROM:<([^<> ]+)>", line)[1]
                self.answer("MAIL", line, "250 ok")
            elif verb == "RCPT":
                one = re.fullmatch(r"RCPT TO:<([^<> ]+)>", line)[1]
                if self.answer("RCPT", line, "250 ok"):
                    to.append(one)
            elif verb == "DATA":
                self.take(sender, to)
            elif verb == "QUIT":
                self.say("221 bye")
                return
            else:
                self.fail(f"what is {line}?")
