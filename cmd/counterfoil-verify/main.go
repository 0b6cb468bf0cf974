// Command counterfoil-verify checks a receipt bundle offline: what was approved, by whom, with whose key, what ran, with
// what outcome, and what the bundle can't show. It links the boundary and nothing else of ours.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/counterfoil/counterfoil"
)

const usage = `counterfoil-verify: check a receipt bundle offline

usage: counterfoil-verify BUNDLE --keys KEYS [--json] [--require-log] [--require-witness NAME]

  BUNDLE                  a file from "counterfoil receipts export ID", or - for standard input
  --keys KEYS             the public keys to trust: keys.json of the gateway's state, which you
                          got from somewhere else than the bundle
  --json                  print the report as one line of JSON
  --require-log           fail unless the bundle proves that the receipt is in the log
  --require-witness NAME  fail unless this witness has cosigned that state of the log; may be
                          given more than once

exit: 0 it verifies, 1 it does not, and why, 2 wrong usage or an unreadable file

example: counterfoil-verify bundle.json --keys keys.json
`

// The exit codes.
const (
	exitOK     = 0
	exitNo     = 1
	exitUsage  = 2
	maxInput   = 64 << 20 // a bundle is smaller; see docs/spec.md
	timeFormat = "2006-01-02 15:04:05.000 UTC"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, time.Now)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer, now func() time.Time) int {
	fs := flag.NewFlagSet("counterfoil-verify", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	keysPath := fs.String("keys", "", "")
	asJSON := fs.Bool("json", false, "")
	requireLog := fs.Bool("require-log", false, "")
	var witnesses []string
	fs.Func("require-witness", "", func(name string) error { witnesses = append(witnesses, name); return nil })
	bundlePath, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	if err != nil || *keysPath == "" {
		if err == nil {
			err = errors.New("--keys is missing")
		}
		fmt.Fprintf(stderr, "counterfoil-verify: error: %v\ncounterfoil-verify: hint: counterfoil-verify --help\n", err)
		return exitUsage
	}
	keys, err := read(*keysPath, stdin)
	if err != nil {
		return unreadable(stderr, err)
	}
	bundle, err := read(bundlePath, stdin)
	if err != nil {
		return unreadable(stderr, err)
	}
	ring, err := counterfoil.ParseKeyRing(keys)
	if err != nil {
		return refuse(stdout, stderr, *asJSON, fmt.Errorf("the keys: %w", err))
	}
	rep, err := counterfoil.VerifyBundle(bundle, ring, now())
	if err == nil {
		err = lacks(rep, *requireLog, witnesses)
	}
	if err != nil {
		return refuse(stdout, stderr, *asJSON, err)
	}
	if *asJSON {
		fmt.Fprintln(stdout, reportJSON(rep))
	} else {
		printReport(stdout, rep)
	}
	return exitOK
}

// lacks returns an error if the report is without what is asked for.
func lacks(rep *counterfoil.Report, log bool, witnesses []string) error {
	if (log || len(witnesses) > 0) && !rep.Logged {
		return &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the bundle has no proof that the receipt is in a log"}
	}
	for _, name := range witnesses {
		if !slices.ContainsFunc(rep.Witnesses, func(c counterfoil.Cosignature) bool { return c.Witness == name }) {
			return &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "a witness that was asked for has not cosigned the log"}
		}
	}
	return nil
}

// parse takes the one positional argument from among the flags, wherever it stands.
func parse(fs *flag.FlagSet, args []string) (string, error) {
	var positional []string
	for {
		if err := fs.Parse(args); err != nil {
			return "", err
		}
		if fs.NArg() == 0 {
			break
		}
		positional = append(positional, fs.Arg(0))
		args = fs.Args()[1:]
	}
	if len(positional) != 1 {
		return "", fmt.Errorf("one bundle is needed, not %d", len(positional))
	}
	return positional[0], nil
}

func read(path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // the person names the file
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // opened for reading
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxInput)
	}
	return b, err
}

func unreadable(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "counterfoil-verify: error: %s\n", plain(err.Error()))
	return exitUsage
}

func refuse(stdout, stderr io.Writer, asJSON bool, err error) int {
	if asJSON {
		fmt.Fprintf(stdout, "{\"verified\":false,\"code\":%s,\"reason\":%s}\n", quote(string(counterfoil.CodeOf(err))), quote(err.Error()))
	} else {
		fmt.Fprintln(stdout, "DOES NOT VERIFY")
	}
	fmt.Fprintf(stderr, "counterfoil-verify: error: %s\n", plain(err.Error()))
	return exitNo
}

func printReport(w io.Writer, r *counterfoil.Report) {
	line := func(name, value string) { fmt.Fprintf(w, "%-12s %s\n", name, plain(value)) }
	fmt.Fprintln(w, "VERIFIED")
	line("receipt", r.ExecutionID+"  "+r.ReceiptDigest.String())
	line("tool", r.Tool+" ("+string(r.Effect)+") of "+r.Source)
	line("proposed by", r.Actor)
	if r.Arguments != nil {
		line("arguments", string(r.Arguments))
	} else {
		line("arguments", "not in the bundle; "+r.ArgumentsDigest.String())
	}
	line("approved by", strings.Join(r.Approvers, ", ")+" on the authority of "+authority(r.Authority))
	for _, k := range r.ApprovalKeys {
		kind := ""
		if k.Passkey != nil {
			kind = ", passkey of " + k.Passkey.RPID
		}
		line("  with key", string(k.ID)+" of "+k.Owner+", custody "+string(k.Custody)+kind)
	}
	if g := r.Grant; g != nil {
		p := g.Params()
		line("grant", p.ID+" of "+g.Approver()+", "+g.Digest().String())
		line("  because", p.Reason)
		line("  for", string(p.Predicate)+" (not evaluated)")
	}
	line("approved at", r.ApprovedAt.Format(timeFormat))
	if r.Reason != "" {
		line("reason", r.Reason)
	}
	line("used at", r.ConsumedAt.Format(timeFormat))
	line("completed at", r.CompletedAt.Format(timeFormat))
	line("outcome", outcome(r))
	if !r.ResultDigest.IsZero() {
		line("result", strconv.FormatInt(r.Bytes, 10)+" bytes accepted, "+r.ResultDigest.String())
	}
	line("log", r.Audience+", tenant "+r.Tenant)
	if r.Logged {
		line("logged", "yes, in the checkpoint of "+strconv.FormatInt(r.LogSize, 10)+" events")
	} else {
		line("logged", "no")
	}
	for _, c := range r.Witnesses {
		line("  witness", c.Witness+" at "+c.At.Format(timeFormat))
	}
	for _, s := range r.Checked {
		line("checked", s)
	}
	for _, s := range r.Unchecked {
		line("not checked", s)
	}
}

func authority(k counterfoil.AuthorityKind) string {
	switch k {
	case counterfoil.AuthorityPerson:
		return "a person, who was shown this dry run"
	case counterfoil.AuthorityGrant:
		return "policy, under a person's standing grant"
	case counterfoil.AuthorityPolicy:
	}
	return "policy alone"
}

func outcome(r *counterfoil.Report) string {
	s := string(r.Outcome)
	if r.Late {
		s += ", after the approval's end"
	}
	if r.Recovered {
		s += ", as recovery found it after a crash"
	}
	return s
}

func reportJSON(r *counterfoil.Report) string {
	var b strings.Builder
	b.WriteString(`{"verified":true`)
	text := func(name, v string) { b.WriteString("," + quote(name) + ":" + quote(v)) }
	list := func(name string, vs []string) {
		q := make([]string, len(vs))
		for i, v := range vs {
			q[i] = quote(v)
		}
		b.WriteString("," + quote(name) + ":[" + strings.Join(q, ",") + "]")
	}
	text("receipt", r.ExecutionID)
	text("receiptDigest", r.ReceiptDigest.String())
	text("tenant", r.Tenant)
	text("audience", r.Audience)
	text("actor", r.Actor)
	text("tool", r.Tool)
	text("effect", string(r.Effect))
	text("source", r.Source)
	text("argumentsDigest", r.ArgumentsDigest.String())
	if r.Arguments != nil {
		b.WriteString(`,"arguments":` + string(r.Arguments)) // canonical JSON already
	}
	text("authority", string(r.Authority))
	list("approvers", r.Approvers)
	var keys []string
	for _, k := range r.ApprovalKeys {
		keys = append(keys, string(k.ID))
	}
	list("approvalKeys", keys)
	if r.Grant != nil {
		text("standingGrant", r.Grant.Digest().String())
	}
	text("reason", r.Reason)
	text("approvedAt", r.ApprovedAt.Format(time.RFC3339Nano))
	text("consumedAt", r.ConsumedAt.Format(time.RFC3339Nano))
	text("completedAt", r.CompletedAt.Format(time.RFC3339Nano))
	text("outcome", string(r.Outcome))
	fmt.Fprintf(&b, `,"late":%t,"recovered":%t,"uncounted":%t,"rows":%d,"bytes":%d`, r.Late, r.Recovered, r.Uncounted, r.Rows, r.Bytes)
	if !r.ResultDigest.IsZero() {
		text("resultDigest", r.ResultDigest.String())
	}
	fmt.Fprintf(&b, `,"logged":%t`, r.Logged)
	if r.Logged {
		fmt.Fprintf(&b, `,"logSize":%d,"witnesses":[`, r.LogSize)
		for i, c := range r.Witnesses {
			b.WriteString(strings.Repeat(",", min(i, 1)) + `{"name":` + quote(c.Witness) + `,"at":` + quote(c.At.Format(time.RFC3339)) + "}")
		}
		b.WriteString("]")
	}
	list("checked", r.Checked)
	list("unchecked", r.Unchecked)
	b.WriteString("}")
	return b.String()
}

// quote writes a JSON string that is safe on a terminal: everything but printable ASCII is escaped.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c >= 0x20 && c < 0x7f:
			b.WriteRune(c)
		case c > 0xFFFF:
			hi, lo := 0xD800+(c-0x10000)>>10, 0xDC00+(c-0x10000)&0x3FF
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plain makes text safe to print on one line of a terminal.
func plain(s string) string {
	var b strings.Builder
	for _, c := range s {
		if unicode.IsPrint(c) && !unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) {
			b.WriteRune(c)
		} else {
			b.WriteString(`\u{` + strconv.FormatInt(int64(c), 16) + `}`)
		}
	}
	return b.String()
}
