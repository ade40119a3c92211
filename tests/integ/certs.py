"""Certificates for tests, made by openssl(1) while a test runs."""
import subprocess


def openssl(*words, stdin=None):
    return subprocess.run(["openssl", *map(str, words)], input=stdin, capture_output=True, check=True).stdout


class Ca:
    """An authority with its files in a folder: NAME.crt, and a NAME.crt and NAME.key for each that it signs."""

    def __init__(self, folder, name="ca"):
        self.dir, self.name = folder, name
        self.cert, self.key = folder / f"{name}.crt", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert)

    def sign(self, name, san, use="serverAuth", days=2, subject=None):
        """A certificate with this subjectAltName ("" = none); days below 0 make one that has expired."""
        cert, key, more = self.dir / f"{name}.crt", self.dir / f"{name}.key", self.dir / f"{name}.ext"
        more.write_text((f"subjectAltName={san}\n" if san else "") + f"extendedKeyUsage={use}\n")
        request = openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                          "-subj", f"/CN={subject or name}")
        openssl("x509", "-req", "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", days, "-extfile", more,
                "-out", cert, stdin=request)
        key.chmod(0o600)
        return cert, key

    def revoke(self, *revoked, over=False):
        """Make NAME.crl: these certificates and no others; over: it was to be replaced long ago."""
        config, index = self.dir / f"{self.name}.cnf", self.dir / f"{self.name}.index"
        config.write_text(f"[ca]\ndefault_ca=all\n[all]\ndatabase={index}\ndefault_md=sha256\ndefault_crl_days=2\n")
        index.write_text("")
        own = ("ca", "-config", config, "-keyfile", self.key, "-cert", self.cert)
        for cert in revoked:
            openssl(*own, "-revoke", cert)
        dates = ("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200102000000Z") if over else ()
        openssl(*own, "-gencrl", *dates, "-out", self.dir / f"{self.name}.crl")


def spki(cert):
    """SHA-256 of a certificate's public key, in hex."""
    der = openssl("pkey", "-pubin", "-outform", "DER", stdin=openssl("x509", "-in", cert, "-noout", "-pubkey"))
    return openssl("dgst", "-sha256", "-r", stdin=der).decode().split()[0]
