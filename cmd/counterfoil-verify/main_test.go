package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// vector writes the content of one of the boundary's vectors into a file of its own and returns the path.
func vector(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, content, _ := bytes.Cut(b, []byte("\n\n"))
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.TrimSuffix(content, []byte("\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func verify(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	now := func() time.Time { return time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC) }
	code = run(args, strings.NewReader(""), &out, &errs, now)
	return code, out.String(), errs.String()
}

const witness = "witness.example.test/w1"

func TestRun_log(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"", nil, exitOK, "\nlogged       no\n"},
		{"", []string{"--require-log"}, exitNo, "no proof that the receipt is in a log"},
		{"", []string{"--require-witness", witness}, exitNo, "no proof that the receipt is in a log"},
		{"-logged", []string{"--require-log"}, exitOK, "\nlogged       yes, in the checkpoint of 5 events\n"},
		{"-logged", []string{"--require-witness", witness}, exitNo, "has not cosigned"},
		{"-logged-witnessed", []string{"--require-log", "--require-witness", witness}, exitOK, "\n  witness    " + witness + " at 2026-07-10 20:00:00.000 UTC\n"},
		{"-logged-witnessed", []string{"--require-witness", witness, "--require-witness", "another"}, exitNo, "has not cosigned"},
		{"-logged-approver-compromised", []string{"--require-log"}, exitOK, "VERIFIED"},
	} {
		code, stdout, stderr := verify(t, append(c.args, vector(t, "bundle"+c.name), "--keys", vector(t, "keys"+c.name))...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s %v: exit %d\n%s%s", c.name, c.args, code, stdout, stderr)
		}
	}
}

func TestRun_logJSON(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"": `{"logged":false}`, "-logged": `{"logged":true,"logSize":5,"witnesses":[]}`,
		"-logged-witnessed": `{"logged":true,"logSize":5,"witnesses":[{"name":"` + witness + `","at":"2026-07-10T20:00:00Z"}]}`,
	} {
		code, stdout, stderr := verify(t, vector(t, "bundle"+name), "--keys", vector(t, "keys"+name), "--json")
		var got, wanted map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK {
			t.Fatalf("%s: exit %d, %v\n%s%s", name, code, err, stdout, stderr)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		for _, member := range []string{"logged", "logSize", "witnesses"} {
			a, _ := json.Marshal(got[member])
			b, _ := json.Marshal(wanted[member])
			if !bytes.Equal(a, b) {
				t.Errorf("%s: %s is %s, want %s", name, member, a, b)
			}
		}
	}
}
