// Checks a proof of `toolcrib audit proof` with Go's implementation of signed notes and transparency logs, which shares
// no code and no author with toolcrib: check KEY FILE.  Debian: golang-go, golang-golang-x-mod-dev.
package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func check(key string, proof []byte) error {
	head, checkpoint, found := bytes.Cut(proof, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	if !found || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return fmt.Errorf("not a proof")
	}
	record, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err != nil {
		return err
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	if err != nil {
		return err
	}
	var path tlog.RecordProof
	for _, line := range lines[3:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return err
		}
		path = append(path, hash)
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return err
	}
	opened, err := note.Open(checkpoint, note.VerifierList(verifier))
	if err != nil {
		return err
	}
	text := strings.Split(opened.Text, "\n")
	if len(text) != 4 || text[0] != verifier.Name() {
		return fmt.Errorf("a checkpoint of another log")
	}
	size, err := strconv.ParseInt(text[1], 10, 64)
	if err != nil {
		return err
	}
	root, err := tlog.ParseHash(text[2])
	if err != nil {
		return err
	}
	if err := tlog.CheckRecord(path, size, root, index, tlog.RecordHash(record)); err != nil {
		return err
	}
	fmt.Printf("record %d of %s, in a log of %d\n", index, text[0], size)
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: check KEY FILE")
		os.Exit(2)
	}
	proof, err := os.ReadFile(os.Args[2])
	if err == nil {
		err = check(os.Args[1], proof)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}
