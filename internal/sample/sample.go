// Package sample is a small MCP server over a folder of notes, bundled so that a person can try the gate without
// installing a server first, and so that tests have an upstream that always answers alike.
//
// It stays inside its folder by means of os.Root, also when symbolic links point elsewhere. It isn't a gate: it does
// whatever it is told, and leaves it to the gate in front of it who may tell it what.
package sample

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds one message in bytes, so that a peer without line breaks can't fill the memory.
const maxLine = 4 << 20

// JSON-RPC's own codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
)

// batchRevision is the only protocol revision whose servers take several messages as one array.
const batchRevision = "2025-03-26"

// revisions lists the protocol revisions that the server speaks, newest first.
func revisions() []string {
	return []string{"2025-11-25", "2025-06-18", batchRevision, "2024-11-05"}
}

// tools is the whole answer to tools/list. It is text, not structs: the gate pins tool definitions by their digest, and
// so they change only when someone edits that text.
//
//go:embed tools.json
var tools string

type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params"`
	Result  jsontext.Value `json:"result"`
	Error   jsontext.Value `json:"error"`
}

type response struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// server is one session: one client, one folder.
type server struct {
	root     *os.Root
	revision string // what initialize agreed on, "" before it
}

// Serve answers the MCP messages that arrive on in, one a line, on out, in their order, until in ends; it returns nil
// then. The notes are the files in dir, which must exist. When ctx ends, Serve closes in, if in can be closed, answers
// nothing more and returns the context's error.
func Serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("sample: open the notes folder: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory handle: nothing can be lost
	if c, ok := in.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() {
			c.Close() //nolint:errcheck,gosec // closed only to end the read below
		})
		defer stop()
	}
	s := &server{root: root, revision: ""}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() && ctx.Err() == nil {
		answer := s.line(bytes.TrimSpace(lines.Bytes()))
		if answer == nil {
			continue
		}
		b, err := json.Marshal(answer, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("sample: encode an answer: %w", err)
		}
		if _, err := out.Write(append(b, '\n')); err != nil {
			return fmt.Errorf("sample: write an answer: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("sample: read a message: %w", err)
	}
	return nil
}

// line returns the answers to one line, nil for none.
func (s *server) line(b []byte) any {
	var batch []jsontext.Value
	switch {
	case len(b) == 0:
		return nil
	case b[0] != '[' || s.revision != batchRevision:
		if r := s.handle(b); r != nil {
			return r
		}
		return nil
	case json.Unmarshal(b, &batch) != nil || len(batch) == 0:
		return failure(codeInvalidRequest, "not a batch of messages")
	}
	var answers []*response
	for _, m := range batch {
		if r := s.handle(m); r != nil {
			answers = append(answers, r)
		}
	}
	if answers == nil {
		return nil
	}
	return answers
}

// handle returns the answer to one message, nil for a notification or a response.
func (s *server) handle(b []byte) *response {
	var m message
	switch {
	case !jsontext.Value(b).IsValid():
		return failure(codeParse, "not JSON")
	case json.Unmarshal(b, &m) != nil || m.JSONRPC != "2.0":
		return failure(codeInvalidRequest, "not a JSON-RPC 2.0 message")
	case m.Method == "" && (m.Result != nil || m.Error != nil):
		return nil
	case m.Method == "":
		return failure(codeInvalidRequest, "no method")
	case m.ID == nil:
		return nil
	case m.ID.Kind() != '"' && (m.ID.Kind() != '0' || bytes.ContainsAny(m.ID, ".eE")):
		return failure(codeInvalidRequest, "the id is neither a string nor an integer")
	}
	r := &response{JSONRPC: "2.0", ID: m.ID, Result: nil, Error: nil}
	r.Result, r.Error = s.call(m.Method, m.Params)
	return r
}

// failure answers a message whose id can't be told or trusted: it has the id null.
func failure(code int, text string) *response {
	return &response{JSONRPC: "2.0", ID: nil, Result: nil, Error: &rpcError{Code: code, Message: text}}
}

func (s *server) call(method string, raw jsontext.Value) (any, *rpcError) {
	var p struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Cursor          jsontext.Value `json:"cursor"`
		Name            string         `json:"name"`
		Arguments       jsontext.Value `json:"arguments"`
	}
	if raw != nil && (raw.Kind() != '{' || json.Unmarshal(raw, &p) != nil) {
		return nil, &rpcError{Code: codeInvalidParams, Message: "the parameters are malformed"}
	}
	switch method {
	case "initialize":
		return s.initialize(p.ProtocolVersion), nil
	case "ping":
		return struct{}{}, nil
	case "tools/list":
		if p.Cursor != nil { // the list has one page
			return nil, &rpcError{Code: codeInvalidParams, Message: "no such cursor"}
		}
		return jsontext.Value(tools), nil
	case "tools/call":
		return s.callTool(p.Name, p.Arguments)
	default:
		return nil, &rpcError{Code: codeMethodNotFound, Message: "no such method"}
	}
}

// initialize agrees on the client's revision where it is known, and else offers the newest.
func (s *server) initialize(revision string) any {
	s.revision = revisions()[0]
	if slices.Contains(revisions(), revision) {
		s.revision = revision
	}
	return map[string]any{
		"protocolVersion": s.revision,
		"capabilities":    jsontext.Value(`{"tools":{}}`),
		"serverInfo":      jsontext.Value(`{"name":"counterfoil-sample","version":"1.0.0"}`),
	}
}
