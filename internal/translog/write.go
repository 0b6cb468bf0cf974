package translog

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// A Format is a form of an export.
type Format string

// The formats.
const (
	// FormatLines is one JSON text a line: a header with the checkpoint, then the events as they were logged, each with its
	// place and its leaf hash. OpenExport reads it, and a Check of it needs nothing else.
	FormatLines Format = "jsonl"
	// FormatCSV is for people and their spreadsheets. Nothing can be checked in it.
	FormatCSV Format = "csv"
)

// ExportParams says what is exported.
type ExportParams struct {
	Store            Store
	Tenant, Audience string
	Checkpoint       *counterfoil.Checkpoint // the events that it covers are exported
	Format           Format
	Progress         func(done, total int64) // nil for none
}

// Export writes the events that a checkpoint covers. It reads page by page, so that a slow reader of w holds up nobody.
func Export(ctx context.Context, w io.Writer, p ExportParams) error {
	if p.Store == nil || p.Checkpoint == nil {
		return invalid("an export needs a store and a checkpoint")
	}
	b := bufio.NewWriterSize(w, 1<<16)
	var put func(Event) error
	flush := b.Flush
	switch p.Format {
	case FormatLines:
		if err := writeHeader(b, p); err != nil {
			return err
		}
		put = func(e Event) error { return writeLine(b, e) }
	case FormatCSV:
		c := csv.NewWriter(b)
		if err := c.Write(columns()); err != nil {
			return writing(err)
		}
		put = func(e Event) error { return writeRow(c, p.Tenant, e) }
		flush = func() error {
			c.Flush()
			return errors.Join(c.Error(), b.Flush())
		}
	default:
		return invalid("the format is not known")
	}
	if err := p.each(ctx, put); err != nil {
		return err
	}
	return writing(flush())
}

// each hands every event that the checkpoint covers to put.
func (p ExportParams) each(ctx context.Context, put func(Event) error) error {
	done, total := int64(0), p.Checkpoint.Size()
	for e, err := range Events(ctx, p.Store, p.Tenant) {
		if err != nil {
			return err
		}
		if e.Sequence > total {
			break
		}
		if err := put(e); err != nil {
			return err
		}
		if done++; done%page == 0 && p.Progress != nil {
			p.Progress(done, total)
		}
	}
	if p.Progress != nil {
		p.Progress(done, total)
	}
	return nil
}

func writing(err error) error {
	if err == nil {
		return nil
	}
	return unavailable("the export can't be written", err)
}

const (
	exportKind    = "counterfoil.log-export"
	exportVersion = "1.0"
	timeLayout    = "2006-01-02T15:04:05.000Z"
)

// A header is the first line of an export, in canonical form.
type header struct {
	Audience   string `json:"audience"`
	Checkpoint string `json:"checkpoint"`
	Kind       string `json:"kind"`
	Tenant     string `json:"tenant"`
	Version    string `json:"version"`
}

func (h header) encode() ([]byte, error) {
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return counterfoil.Canonicalize(b)
}

func writeHeader(w *bufio.Writer, p ExportParams) error {
	h := header{
		Audience: p.Audience, Checkpoint: string(p.Checkpoint.Note()), Kind: exportKind, Tenant: p.Tenant, Version: exportVersion,
	}
	b, err := h.encode()
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return writing(err)
}

// The parts of an event's line, around the event, its leaf hash and its place.
const (
	lineEvent    = `{"event":`
	lineLeaf     = `,"leaf":"`
	lineSequence = `","sequence":`
	lineTime     = `,"time":"`
	lineDropped  = `{"leaf":"`
)

func writeLine(w *bufio.Writer, e Event) error {
	_, err := w.Write(appendLine(w.AvailableBuffer(), e))
	return writing(err)
}

// appendLine appends an event's line. One whose body was dropped has its time instead.
func appendLine(b []byte, e Event) []byte {
	if e.Body != nil {
		b = append(b, lineEvent...)
		b = append(b, e.Body...)
		b = append(b, lineLeaf...)
	} else {
		b = append(b, lineDropped...)
	}
	b = base64.StdEncoding.AppendEncode(b, e.Leaf[:])
	b = append(b, lineSequence...)
	b = strconv.AppendInt(b, e.Sequence, 10)
	if e.Body == nil {
		b = append(b, lineTime...)
		b = e.At.UTC().AppendFormat(b, timeLayout)
		b = append(b, '"')
	}
	return append(b, '}', '\n')
}

// columns are the members of events in the order of a spreadsheet's columns, after the place and before the leaf hash.
func columns() []string {
	return []string{
		"sequence", "time", "phase", "executionId", "outcome", "code", "effect", "actor", "tool", "source", "step", "plan",
		"rows", "bytes", "observedRows", "observedBytes", "late", "recovered", "uncounted", "inputDigest", "planDigest", "policyDigest",
		"approvalDigest", "bindingsDigest", "useDigest", "receiptDigest", "resultDigest", "pseudonymKey", "audience", "tenant", "leaf",
	}
}

func writeRow(w *csv.Writer, tenant string, e Event) error {
	members := map[string]string{"phase": "(dropped by retention)", "time": e.At.UTC().Format(timeLayout), "tenant": tenant}
	if e.Body != nil {
		var ok bool
		if members, ok = flat(e.Body); !ok {
			return broken(tenant, "the event "+strconv.FormatInt(e.Sequence, 10)+" is not in the form of events")
		}
	}
	members["sequence"] = strconv.FormatInt(e.Sequence, 10)
	members["leaf"] = base64.StdEncoding.EncodeToString(e.Leaf[:])
	names := columns()
	row := make([]string, len(names))
	for i, name := range names {
		row[i] = cell(members[name])
	}
	return writing(w.Write(row))
}

// flat returns the members of an object that has no others than strings, numbers and truths.
func flat(body []byte) (map[string]string, bool) {
	var values map[string]jsontext.Value
	if err := json.Unmarshal(body, &values); err != nil {
		return nil, false
	}
	out := make(map[string]string, len(values))
	for name, v := range values {
		text := []byte(v)
		switch v[0] {
		case '{', '[', 'n':
			return nil, false
		case '"':
			var err error
			if text, err = jsontext.AppendUnquote(nil, v); err != nil {
				return nil, false
			}
		}
		out[name] = string(text)
	}
	return out, true
}

// parseTime reads a time in its one spelling.
func parseTime(s string) (time.Time, bool) {
	t, err := time.Parse(timeLayout, s)
	return t, err == nil && t.Format(timeLayout) == s
}
