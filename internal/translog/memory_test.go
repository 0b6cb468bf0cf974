package translog_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A memory is a store in memory, and the attacker's hand in it.
type memory struct {
	mu    sync.Mutex
	logs  map[string]*log
	reads int // calls of Tiles
	names int // tiles asked for
}

type log struct {
	events []translog.Event
	state  translog.State
	root   translog.Hash
	tiles  map[translog.TileID][]byte
	find   map[string]int64
}

func newMemory() *memory { return &memory{logs: map[string]*log{}} }

func (m *memory) log(tenant string) *log {
	l := m.logs[tenant]
	if l == nil {
		l = &log{state: translog.State{Tenant: tenant}, tiles: map[translog.TileID][]byte{}, find: map[string]int64{}}
		m.logs[tenant] = l
	}
	return l
}

// size returns how many events a log has.
func (m *memory) size(tenant string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.log(tenant).events)
}

// append seals an event and puts it at the end of its tenant's log.
func (m *memory) append(e counterfoil.Event, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.log(e.Tenant())
	n := int64(len(l.events)) + 1
	body := e.Seal(n, at)
	l.events = append(l.events, translog.Event{Sequence: n, At: at, Leaf: leafHash(body), Body: body})
	l.state.Size = n
	if key := string(e.Phase()) + " " + e.ExecutionID(); l.find[key] == 0 {
		l.find[key] = n
	}
}

func (m *memory) Logs(_ context.Context, after string, limit int) ([]translog.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []translog.State
	for tenant, l := range m.logs {
		if tenant > after && l.state.Size+l.state.Published > 0 {
			out = append(out, l.state)
		}
	}
	slices.SortFunc(out, func(a, b translog.State) int { return strings.Compare(a.Tenant, b.Tenant) })
	return out[:min(limit, len(out))], nil
}

func (m *memory) Log(_ context.Context, tenant string) (translog.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.logs[tenant]; l != nil {
		return l.state, nil
	}
	return translog.State{}, nil
}

func (m *memory) Events(_ context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.log(tenant).events
	from := slices.IndexFunc(events, func(e translog.Event) bool { return e.Sequence > after })
	if from < 0 {
		return nil, nil
	}
	return slices.Clone(events[from:min(from+limit, len(events))]), nil
}

func (m *memory) Leaves(ctx context.Context, tenant string, after int64, limit int) ([]translog.Event, error) {
	events, err := m.Events(ctx, tenant, after, limit)
	for i := range events {
		events[i].Body = nil
	}
	return events, err
}

func (m *memory) Find(_ context.Context, tenant, execution string, phase counterfoil.Phase) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log(tenant).find[string(phase)+" "+execution], nil
}

func (m *memory) Publish(_ context.Context, p translog.Publication) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.log(p.Tenant)
	if p.Size < l.state.Published || p.Size == l.state.Published && p.Root != l.root {
		return translog.ErrStale
	}
	l.state.Published, l.state.Note, l.root = p.Size, slices.Clone(p.Note), p.Root
	for _, t := range p.Tiles {
		if len(l.tiles[t.TileID]) <= len(t.Hashes) {
			l.tiles[t.TileID] = slices.Clone(t.Hashes)
		}
	}
	return nil
}

func (m *memory) Tiles(_ context.Context, tenant string, ids []translog.TileID) ([]translog.Tile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads, m.names = m.reads+1, m.names+len(ids)
	var out []translog.Tile
	for _, id := range ids {
		if h, ok := m.log(tenant).tiles[id]; ok {
			out = append(out, translog.Tile{TileID: id, Hashes: slices.Clone(h)})
		}
	}
	return out, nil
}

func (m *memory) Retire(_ context.Context, tenant string, before, _ time.Time, limit int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, n := m.log(tenant), 0
	for i := range l.events {
		if e := &l.events[i]; n < limit && e.Body != nil && e.At.Before(before) && e.Sequence <= l.state.Published {
			e.Body = nil
			n++
		}
	}
	return n, nil
}
