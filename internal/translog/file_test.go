package translog_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func TestExport_lines(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	w.refusals(5) // not covered, not exported
	if n, err := w.store.Retire(w.ctx(), tenant, w.store.log(tenant).events[7].At, w.clock, 1000); err != nil || n != 7 {
		t.Fatal(n, err)
	}
	exported := w.export()
	if n := bytes.Count(exported, []byte("\n")); n != 601 {
		t.Errorf("%d lines, want a header and 600 events", n)
	}
	for line := range bytes.Lines(exported) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if c, err := counterfoil.Canonicalize(line); err != nil || !bytes.Equal(c, line) {
			t.Fatalf("%s is not canonical (%v)", line, err)
		}
	}
	x, err := translog.OpenExport(bytes.NewReader(exported))
	if err != nil {
		t.Fatal(err)
	}
	if x.Tenant != tenant || x.Audience != audience || !bytes.Equal(x.Checkpoint, w.store.log(tenant).state.Note) {
		t.Errorf("header: %+v", x)
	}
	c := w.check()
	r := w.report(c, x.Events())
	if !r.OK() || r.Size != 600 || r.Dropped != 7 {
		t.Errorf("%+v", r)
	}
}

func TestOpenExport_rejects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(1)
	w.publish()
	whole := string(w.export())
	for name, edited := range map[string]string{
		"empty":            "",
		"no header":        whole[strings.IndexByte(whole, '\n')+1:],
		"header of others": strings.Replace(whole, "counterfoil.log-export", "counterfoil.other", 1),
		"another version":  strings.Replace(whole, `"version":"1.0"`, `"version":"2.0"`, 1),
		"unknown member":   strings.Replace(whole, `"tenant"`, `"more":1,"tenant"`, 1),
		"not canonical":    strings.Replace(whole, `{"`, `{ "`, 1),
		"cut":              whole[:len(whole)-1],
		"empty line":       whole + "\n",
		"carriage return":  strings.ReplaceAll(whole, "\n", "\r\n"),
		"no leaf":          strings.Replace(whole, `,"leaf":"`, `,"leef":"`, 1),
		"sequence as text": strings.Replace(whole, `"sequence":1}`, `"sequence":"1"}`, 1),
		"sequence zero":    strings.Replace(whole, `"sequence":1}`, `"sequence":0}`, 1),
		"leading zero":     strings.Replace(whole, `"sequence":1}`, `"sequence":01}`, 1),
		"too long":         whole + strings.Repeat("x", 2<<20) + "\n",
	} {
		x, err := translog.OpenExport(strings.NewReader(edited))
		if err == nil {
			_, err = translog.Check{Tenant: tenant, Audience: audience, Ring: w.ring, Checkpoints: [][]byte{x.Checkpoint}}.Run(w.ctx(), x.Events())
		}
		if !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// hostile texts, as identities that are not refused would carry them, and longer ones.
func hostile() []string {
	return []string{
		"x\n2026-11-30 approval a-1 granted by admin", "\x1b[1A\x1b[2K", "\u202eevil", "a\u2028b", "\r", strings.Repeat("é", 1<<19), `{"a":"b"}`,
		"=cmd()", "+1", "-1", "@x", "\t=1", "  =1", "＝1", "\x00", "\xff\xfe", "a,b\"c", `\u{202e}`, "", " ", "\ufeff",
	}
}

func TestCell(t *testing.T) {
	t.Parallel()
	for _, s := range hostile() {
		got := translog.Cell(s)
		if first := strings.TrimLeft(got, " "); first != "" && strings.ContainsAny(first[:1], "=+-@") {
			t.Errorf("%q begins a formula", got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q shows what can't be seen", got)
		}
		if sum := sha256.Sum256([]byte(s)); len(s) > 512 && (len(got) > 700 || !strings.Contains(got, hex.EncodeToString(sum[:]))) {
			t.Errorf("of %d bytes the cell shows %d, without the digest", len(s), len(got))
		}
	}
	for in, want := range map[string]string{
		"plain": "plain", "=cmd()": "'=cmd()", "a\nb": `a\u{a}b`, `a\b`: `a\\b`, "\u202ex": `\u{202e}x`, "\xff": `\xff`, "Zoë": "Zoë", "": "",
	} {
		if got := translog.Cell(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestExport_csv(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(2)
	w.append(counterfoil.PhaseRequested, "=cmd()")
	w.publish()
	if _, err := w.store.Retire(w.ctx(), tenant, w.store.log(tenant).events[1].At, w.clock, 1); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	p := translog.ExportParams{Store: w.store, Tenant: tenant, Audience: audience, Checkpoint: w.published(), Format: translog.FormatCSV}
	if err := translog.Export(w.ctx(), &b, p); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 8 {
		t.Fatalf("%d rows (%v), want a header and seven events", len(rows), err)
	}
	col := func(name string) int { return slices.Index(rows[0], name) }
	for _, tt := range []struct {
		row        int
		name, cell string
	}{
		{1, "phase", "(dropped by retention)"}, {1, "sequence", "1"}, {2, "phase", "started"}, {2, "executionId", "x-0"},
		{3, "phase", "completed"}, {3, "rows", "0"}, {4, "code", "policy-denied"}, {7, "executionId", "'=cmd()"}, {7, "time", "2026-07-10T20:00:00.007Z"},
	} {
		if got := rows[tt.row][col(tt.name)]; got != tt.cell {
			t.Errorf("row %d, %s: got %q, want %q", tt.row, tt.name, got, tt.cell)
		}
	}
}

// A full disk takes a while to fill.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}

func TestExport_fails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	p := translog.ExportParams{Store: w.store, Tenant: tenant, Audience: audience, Checkpoint: w.published(), Format: translog.FormatLines}
	for _, left := range []int{0, 1 << 17} {
		for _, f := range []translog.Format{translog.FormatLines, translog.FormatCSV} {
			p.Format = f
			if err := translog.Export(w.ctx(), &full{left}, p); !errors.Is(err, counterfoil.CodeUnavailable) {
				t.Errorf("%s, %d bytes: got %v", f, left, err)
			}
		}
	}
	p.Format = "xml"
	if err := translog.Export(w.ctx(), io.Discard, p); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Error(err)
	}
	p.Format, p.Checkpoint = translog.FormatLines, nil
	if err := translog.Export(w.ctx(), io.Discard, p); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Error(err)
	}
}

func FuzzOpenExport(f *testing.F) {
	w := setup(f)
	w.run(3)
	w.publish()
	if _, err := w.store.Retire(context.Background(), tenant, w.store.log(tenant).events[2].At, w.clock, 2); err != nil {
		f.Fatal(err)
	}
	whole := w.export()
	f.Add(whole)
	logged := slices.Clone(w.store.log(tenant).events)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := translog.OpenExport(bytes.NewReader(b))
		if err != nil {
			return
		}
		var got []translog.Event
		r, err := translog.Check{
			Tenant: tenant, Audience: audience, Ring: w.ring, Checkpoints: [][]byte{x.Checkpoint},
		}.Run(t.Context(), func(yield func(translog.Event, error) bool) {
			for e, err := range x.Events() {
				got = append(got, e)
				if !yield(e, err) {
					return
				}
			}
		})
		if err != nil || !r.OK() {
			return
		}
		for i, e := range got { // what holds is what was logged; bodies may be gone, as retention takes them
			if want := logged[i]; e.Leaf != want.Leaf || e.Sequence != want.Sequence || e.Body != nil && !bytes.Equal(e.Body, want.Body) {
				t.Fatalf("an edited export is right: %+v", e)
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	w := setup(f)
	w.run(1)
	w.publish()
	for line := range bytes.Lines(w.export()) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"leaf":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","sequence":9,"time":"2026-07-10T20:00:00.007Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, ok := translog.ParseLine(line); ok && !bytes.Equal(translog.AppendLine(nil, e), append(line, '\n')) {
			t.Fatalf("%q has two spellings", line)
		}
	})
}

func FuzzCell(f *testing.F) {
	for _, s := range hostile() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := translog.Cell(s)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q shows what can't be seen", got)
		}
		if first := strings.TrimLeft(got, " "); first != "" && strings.ContainsAny(first[:1], "=+-@") {
			t.Fatalf("%q begins a formula", got)
		}
	})
}
