package upstream

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The bounds of one list.
const (
	maxPages        = 1000
	maxItems        = 10_000
	maxListBytes    = 16 << 20
	maxListAttempts = 3
	maxListTime     = 60 * time.Second
	maxKept         = 5 * time.Minute  // of a list whose upstream can't say that it has changed
	briefly         = 10 * time.Second // of one whose upstream says nothing at all of how long it holds
)

// Keep says how long a list of tools holds.
type Keep byte

// The ways to keep a list. The zero Keep keeps none.
const (
	KeepUntilTold Keep = iota + 1 // until Forget
	KeepAsSaid                    // as long as its ttlMs says
	KeepBriefly                   // for some seconds
)

// A Lister reads whole lists of one upstream, and keeps the one of its tools.
type Lister struct {
	ask func(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error)
	now func() time.Time
	fit func(definition []byte) bool // which tools can be used; nil for all

	turn chan struct{} // holds one token: only one caller lists at a time

	mu      sync.Mutex
	changes uint64 // how often the tools were said to have changed
	cached  *listing
}

// listing is one whole list of tools.
type listing struct {
	tools   [][]byte
	asked   string    // the _meta that it was asked for with
	changes uint64    // Lister.changes when it was begun
	lasting bool      // until a change that we are told of; else
	until   time.Time // at most until then
}

// NewLister makes a lister that asks the upstream with ask, which returns the upstream's response.
func NewLister(now func() time.Time, ask func(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error)) *Lister {
	l := &Lister{ask: ask, now: now, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// Forget makes the next call of Tools list anew.
func (l *Lister) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.cached = nil
}

// Tools returns the definitions of all tools, as the upstream wrote them. A list is whole or an error. meta is the _meta
// object to ask with, nil for none; a list that was asked for with another is not taken.
func (l *Lister) Tools(ctx context.Context, meta []byte, keep Keep) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxListTime)
	defer cancel()
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, listError("listing the upstream's tools took too long", context.Cause(ctx))
	}
	for range maxListAttempts {
		if x := l.kept(string(meta)); x != nil {
			return x.tools, nil
		}
		x, err := l.list(ctx, meta, keep)
		if err != nil {
			return nil, err
		}
		if l.keep(x) {
			return x.tools, nil
		}
	}
	return nil, listError("the upstream's tools change faster than they can be listed", nil)
}

// kept returns the cached list if it still holds.
func (l *Lister) kept(asked string) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.cached
	if x == nil || x.asked != asked || !x.lasting && !l.now().Before(x.until) {
		return nil
	}
	return x
}

// keep caches a list. It returns false for one that changed while it was listed: its pages may not belong together.
func (l *Lister) keep(x *listing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.changes != l.changes {
		return false
	}
	l.cached = x
	return true
}

func (l *Lister) list(ctx context.Context, meta []byte, keep Keep) (*listing, error) {
	l.mu.Lock()
	x := &listing{asked: string(meta), changes: l.changes, lasting: keep == KeepUntilTold}
	l.mu.Unlock()
	begun := l.now()
	tools, life, err := l.All(ctx, "tools/list", "tools", meta)
	if err != nil {
		return nil, err
	}
	if l.fit != nil {
		tools = slices.DeleteFunc(tools, func(d []byte) bool { return !l.fit(d) })
	}
	switch x.tools = tools; keep {
	case KeepUntilTold:
	case KeepAsSaid:
		x.until = begun.Add(life)
	case KeepBriefly:
		x.until = begun.Add(briefly)
	}
	return x, nil
}

// All reads all pages of a list, whose elements are in the member with this name. It returns too how long the upstream
// says that the list holds; not at all, if it doesn't say.
func (l *Lister) All(ctx context.Context, method, name string, meta []byte) (items [][]byte, life time.Duration, err error) {
	items, life = [][]byte{}, maxKept
	seen := make(map[string]bool)
	size := 0
	var cursor []byte
	for range maxPages {
		result, err := l.page(ctx, method, meta, cursor)
		if err != nil {
			return nil, 0, err
		}
		more, err := jsonrpc.Elements(member(result, name))
		if err != nil {
			return nil, 0, listError("the upstream's list is malformed", nil)
		}
		for _, t := range more {
			size += len(t)
		}
		items = append(items, more...)
		if len(items) > maxItems || size > maxListBytes {
			return nil, 0, listError("the upstream's list is too long", nil)
		}
		life = min(life, ttl(result))
		cursor = member(result, "nextCursor")
		if cursor == nil || bytes.Equal(cursor, []byte("null")) {
			return items, life, nil
		}
		text, ok := jsonrpc.Unquote(cursor)
		if !ok || seen[text] {
			return nil, 0, listError("the upstream's list does not end", nil)
		}
		seen[text] = true
	}
	return nil, 0, listError("the upstream's list has too many pages", nil)
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
func (l *Lister) page(ctx context.Context, method string, meta, cursor []byte) ([]jsonrpc.Member, error) {
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
	reply, err := l.ask(ctx, method, raw)
	if err != nil {
		return nil, listError("the upstream could not be asked for its list", err)
	}
	if reply.Result == nil {
		return nil, listError("the upstream refused to list what it has", nil)
	}
	return members(reply.Result), nil
}

func listError(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: msg, Err: cause}
}
