package mcpserver

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The bounds of one upstream's list of tools.
const (
	maxPages        = 1000
	maxTools        = 10_000
	maxListBytes    = 16 << 20
	maxListAttempts = 3
	defaultListTime = 60 * time.Second
	maxKept         = 5 * time.Minute // of a list whose upstream can't say that it has changed
)

// definitions are one whole list.
type definitions struct {
	tools   [][]byte
	asked   string    // the _meta that it was asked for with
	changes uint64    // Session.changes when it was begun
	lasting bool      // until a change that we are told of; else
	until   time.Time // at most until then
}

// forget makes the next call of Definitions list anew.
func (s *Session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.cached = nil
}

// Definitions returns the definitions of all tools of the upstream, as it wrote them. A list is whole or an error, and is
// kept until the upstream says that its tools have changed; one that stateless requests asked for, which needs a
// subscription for that, as long as its ttlMs says.
func (s *Session) Definitions(ctx context.Context, meta []byte, refresh bool) ([][]byte, error) {
	if err := s.ready(meta); err != nil {
		return nil, err
	}
	if refresh {
		s.forget()
	}
	ctx, cancel := context.WithTimeout(ctx, s.listTime)
	defer cancel()
	select {
	case <-s.listing:
		defer func() { s.listing <- struct{}{} }()
	case <-ctx.Done():
		return nil, listError("listing the upstream's tools took too long", context.Cause(ctx))
	}
	asked := listMeta(meta)
	for range maxListAttempts {
		if d := s.kept(string(asked)); d != nil {
			return d.tools, nil
		}
		d, err := s.list(ctx, asked)
		if err != nil {
			return nil, err
		}
		if s.keep(d, isModern(meta)) {
			return d.tools, nil
		}
	}
	return nil, listError("the upstream's tools change faster than they can be listed", nil)
}

// listMeta is what of a call's _meta goes along when the tools are listed for it: all that describes the client, nothing
// that belongs to the one request.
func listMeta(meta []byte) []byte {
	var kept []jsonrpc.Member
	for _, m := range object(meta) {
		if strings.HasPrefix(m.Name, metaPrefix) {
			kept = append(kept, m)
		}
	}
	if kept == nil {
		return nil
	}
	return jsonrpc.Object(kept)
}

// kept returns the cached list if it still holds.
func (s *Session) kept(asked string) *definitions {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.cached
	if d == nil || d.asked != asked || !d.lasting && !s.now().Before(d.until) {
		return nil
	}
	return d
}

// keep caches a list. It returns false for one that changed while it was listed: its pages may not belong together.
func (s *Session) keep(d *definitions, modern bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.changes != s.changes {
		return false
	}
	d.lasting = !modern
	s.cached = d
	return true
}

// list reads all pages.
func (s *Session) list(ctx context.Context, meta []byte) (*definitions, error) {
	s.mu.Lock()
	d := &definitions{tools: [][]byte{}, asked: string(meta), changes: s.changes}
	s.mu.Unlock()
	begun := s.now()
	life := maxKept
	seen := make(map[string]bool)
	size := 0
	var cursor []byte
	for range maxPages {
		result, err := s.page(ctx, meta, cursor)
		if err != nil {
			return nil, err
		}
		tools, err := jsonrpc.Elements(member(result, "tools"))
		if err != nil {
			return nil, listError("the upstream's list of tools is malformed", nil)
		}
		for _, t := range tools {
			size += len(t)
		}
		d.tools = append(d.tools, tools...)
		if len(d.tools) > maxTools || size > maxListBytes {
			return nil, listError("the upstream lists too many tools", nil)
		}
		life = min(life, ttl(result))
		cursor = member(result, "nextCursor")
		if cursor == nil || bytes.Equal(cursor, []byte("null")) {
			d.until = begun.Add(life)
			return d, nil
		}
		text, ok := jsonrpc.Unquote(cursor)
		if !ok || seen[text] {
			return nil, listError("the upstream's list of tools does not end", nil)
		}
		seen[text] = true
	}
	return nil, listError("the upstream's list of tools has too many pages", nil)
}

// ttl reads how long a page may be kept; not at all, if it doesn't say.
func ttl(page []jsonrpc.Member) time.Duration {
	ms, err := strconv.ParseInt(string(member(page, "ttlMs")), 10, 64)
	if err != nil || ms < 0 {
		return 0
	}
	return time.Duration(min(ms, maxKept.Milliseconds())) * time.Millisecond
}

// page reads one page.
func (s *Session) page(ctx context.Context, meta, cursor []byte) ([]jsonrpc.Member, error) {
	var params []jsonrpc.Member
	if cursor != nil {
		params = append(params, jsonrpc.Member{Name: "cursor", Value: cursor})
	}
	if meta != nil {
		params = append(params, jsonrpc.Member{Name: "_meta", Value: meta})
	}
	var raw []byte
	if params != nil {
		raw = jsonrpc.Object(params)
	}
	reply, err := s.conn.Do(ctx, func(id jsonrpc.ID) []byte { return jsonrpc.NewRequest(id, "tools/list", raw) }, 0)
	if err != nil {
		return nil, listError("the upstream's tools could not be listed", err)
	}
	if reply.Result == nil {
		return nil, listError("the upstream refused to list its tools", nil)
	}
	return object(reply.Result), nil
}

func listError(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: msg, Err: cause}
}
