package translog

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// maxLine bounds a line of an export.
const maxLine = 1 << 20

// An ExportFile is a log that was exported as lines.
type ExportFile struct {
	Tenant, Audience string
	// Checkpoint is the note that the export came with. It is as good as its signature.
	Checkpoint []byte

	lines *bufio.Scanner
}

// OpenExport reads the header of an export.
func OpenExport(r io.Reader) (*ExportFile, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	if !lines.Scan() {
		return nil, unread(lines.Err(), "the export has no header")
	}
	var h header
	if err := json.Unmarshal(lines.Bytes(), &h, json.RejectUnknownMembers(true)); err != nil {
		return nil, invalid("the export has no header")
	}
	again, err := h.encode()
	if err != nil || !bytes.Equal(again, lines.Bytes()) || h.Kind != exportKind || h.Version != exportVersion {
		return nil, invalid("the export has no header of this version")
	}
	return &ExportFile{Tenant: h.Tenant, Audience: h.Audience, Checkpoint: []byte(h.Checkpoint), lines: lines}, nil
}

// Events returns the events, once. A line that is not one of an event ends them with an error of the code invalid-input.
func (x *ExportFile) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for x.lines.Scan() {
			e, ok := parseLine(x.lines.Bytes())
			if !ok {
				yield(Event{}, invalid("a line of the export is not one of an event"))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := x.lines.Err(); err != nil {
			yield(Event{}, unread(err, ""))
		}
	}
}

func unread(err error, otherwise string) error {
	switch {
	case err == nil:
		return invalid(otherwise)
	case errors.Is(err, bufio.ErrTooLong):
		return invalid("a line of the export is too long")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the last line of the export is cut")
	default:
		return unavailable("the export can't be read", err)
	}
}

// wholeLines splits at line feeds alone. A last line without one is cut.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// leafText is how long a leaf hash is as base64.
const leafText = 44

// parseLine reads what appendLine writes, and nothing else. Whether the body is an event is not looked at.
func parseLine(line []byte) (Event, bool) {
	var e Event
	rest, ok := bytes.CutSuffix(line, []byte("}"))
	if !ok {
		return e, false
	}
	dropped := bytes.HasPrefix(line, []byte(lineDropped))
	if dropped {
		at := bytes.LastIndex(rest, []byte(lineTime))
		if at < 0 {
			return e, false
		}
		text, closed := bytes.CutSuffix(rest[at+len(lineTime):], []byte(`"`))
		if e.At, ok = parseTime(string(text)); !ok || !closed {
			return e, false
		}
		rest = rest[:at]
	}
	at := bytes.LastIndex(rest, []byte(lineSequence))
	if at < leafText+len(lineLeaf) {
		return e, false
	}
	n, err := strconv.ParseInt(string(rest[at+len(lineSequence):]), 10, 64)
	if err != nil || n < 1 {
		return e, false
	}
	e.Sequence = n
	leaf, err := base64.StdEncoding.Strict().DecodeString(string(rest[at-leafText : at]))
	if err != nil || copy(e.Leaf[:], leaf) != len(e.Leaf) || len(leaf) != len(e.Leaf) {
		return e, false
	}
	if !dropped {
		body, ok := bytes.CutPrefix(rest[:at-leafText], []byte(lineEvent))
		if !ok {
			return e, false
		}
		if body, ok = bytes.CutSuffix(body, []byte(lineLeaf)); !ok || len(body) == 0 {
			return e, false
		}
		e.Body = slices.Clone(body)
	}
	return e, bytes.Equal(appendLine(nil, e), append(slices.Clone(line), '\n'))
}
