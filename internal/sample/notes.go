package sample

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds on what one call touches.
const (
	maxNote  = 1 << 20 // bytes of one note
	maxNotes = 1000    // notes in one listing
)

var (
	errArguments = errors.New("the arguments don't match the tool's input schema")
	errNoNote    = errors.New("no such note")
)

type toolResult struct {
	Content []textContent `json:"content"`
	IsError bool          `json:"isError"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// callTool runs one tool. What the tool itself refuses is a result that is an error, as MCP asks: the model reads it.
func (s *server) callTool(name string, raw jsontext.Value) (any, *rpcError) {
	p, text, err := arguments(raw, name != "list_notes", name == "write_note")
	var run func() (string, error)
	switch name {
	case "list_notes":
		run = s.listNotes
	case "read_note":
		run = func() (string, error) { return s.readNote(p) }
	case "write_note":
		run = func() (string, error) { return s.writeNote(p, text) }
	case "delete_note":
		run = func() (string, error) { return s.deleteNote(p) }
	default:
		return nil, &rpcError{Code: codeInvalidParams, Message: "no such tool"}
	}
	var answer string
	if err == nil {
		answer, err = run()
	}
	if err != nil {
		answer = err.Error()
	}
	return toolResult{Content: []textContent{{Type: "text", Text: answer}}, IsError: err != nil}, nil
}

// arguments decodes a call's arguments strictly: each member is there once, spelled as in the schema, exactly if wanted.
func arguments(raw jsontext.Value, wantPath, wantText bool) (notePath, text string, err error) {
	a := struct {
		Path *string `json:"path"`
		Text *string `json:"text"`
	}{Path: nil, Text: nil}
	if raw != nil && (raw.Kind() != '{' || json.Unmarshal(raw, &a, json.RejectUnknownMembers(true)) != nil) {
		return "", "", errArguments
	}
	if wantPath != (a.Path != nil) || wantText != (a.Text != nil) {
		return "", "", errArguments
	}
	var zero string
	return *cmp.Or(a.Path, &zero), *cmp.Or(a.Text, &zero), nil
}

// check tells whether p is well formed and names a regular file in the folder; errNoNote says that it names nothing.
func (s *server) check(p string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !fs.ValidPath(p) || p == "." || strings.ContainsFunc(p, control) {
		return errors.New("the path must be relative, with forward slashes, without .. and control characters")
	}
	info, err := s.root.Stat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errNoNote
	case err != nil:
		return errors.New("the path leads out of the folder or can't be followed")
	case !info.Mode().IsRegular(): // opening a named pipe would block
		return errors.New("the path isn't a note's")
	}
	return nil
}

func (s *server) listNotes() (string, error) {
	paths := make([]string, 0, maxNotes)
	err := fs.WalkDir(s.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case len(paths) == maxNotes:
			return fs.SkipAll
		case d.Type().IsRegular():
			paths = append(paths, p)
		}
		return nil
	})
	if err != nil {
		return "", errors.New("the folder can't be listed")
	}
	if len(paths) == 0 {
		return "no notes", nil
	}
	return strings.Join(paths, "\n"), nil
}

func (s *server) readNote(p string) (string, error) {
	if err := s.check(p); err != nil {
		return "", err
	}
	f, err := s.root.Open(p)
	if err != nil {
		return "", errors.New("the note can't be read")
	}
	defer f.Close() //nolint:errcheck // only read from: nothing can be lost
	b, err := io.ReadAll(io.LimitReader(f, maxNote+1))
	if err != nil || len(b) > maxNote || !utf8.Valid(b) {
		return "", errors.New("the note can't be read, is too large or isn't text")
	}
	return string(b), nil
}

func (s *server) writeNote(p, text string) (string, error) {
	if err := s.check(p); err != nil && !errors.Is(err, errNoNote) {
		return "", err
	}
	if len(text) > maxNote {
		return "", errors.New("the text is too large")
	}
	if err := s.root.MkdirAll(path.Dir(p), 0o700); err != nil {
		return "", errors.New("the note's folder can't be made")
	}
	if err := s.root.WriteFile(p, []byte(text), 0o600); err != nil {
		return "", errors.New("the note can't be written")
	}
	return "wrote " + strconv.Itoa(len(text)) + " bytes to " + p, nil
}

func (s *server) deleteNote(p string) (string, error) {
	if err := s.check(p); err != nil {
		return "", err
	}
	if err := s.root.Remove(p); err != nil {
		return "", errors.New("the note can't be deleted")
	}
	return "deleted " + p, nil
}
