package translog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/counterfoil/counterfoil"
)

// Config is what the logs of an installation are published with.
type Config struct {
	Store    Store
	Audience string               // of the installation; the logs' names begin with it
	Ring     *counterfoil.KeyRing // what checkpoints and cosignatures are verified against
	Signer   counterfoil.Signer   // with a checkpoint key
	Keep     *Keep                // nil for none
	// Interval is how long the publisher rests between two rounds; below one millisecond it is half a second.
	Interval  time.Duration
	Witnesses []Witness
	Client    *http.Client // for the witnesses
	Logger    *slog.Logger
}

const (
	restByDefault = 500 * time.Millisecond
	leastRest     = time.Millisecond
)

// Logs publishes the logs of all tenants of a store, and proves what is in them. Many processes may do so on one store.
type Logs struct {
	c Config

	mu        sync.Mutex
	seen      map[string]*counterfoil.Checkpoint // by tenant: the newest that this process has verified
	witnessed map[string]*counterfoil.Checkpoint // by tenant: the newest that a witness has signed for this process
	kept      map[string]*counterfoil.Checkpoint // by tenant: the last that this process has kept outside

	cosigning sync.Mutex // held while signatures of witnesses are added to a published note
}

// New checks a configuration.
func New(c Config) (*Logs, error) {
	if c.Store == nil || c.Ring == nil || c.Signer == nil || c.Logger == nil {
		return nil, invalid("logs need a store, a key ring, a signer and a logger")
	}
	if _, err := counterfoil.LogOrigin(c.Audience, "tenant"); err != nil {
		return nil, err
	}
	if c.Interval < leastRest {
		c.Interval = restByDefault
	}
	if len(c.Witnesses) > 0 && c.Client == nil {
		return nil, invalid("witnesses need a client")
	}
	none := func() map[string]*counterfoil.Checkpoint { return map[string]*counterfoil.Checkpoint{} }
	return &Logs{c: c, seen: none(), witnessed: none(), kept: none()}, nil
}

// Run publishes until ctx ends, and has the witnesses sign. What fails is logged, once while it stays the same, and tried
// again in the next round.
func (l *Logs) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { l.loop(ctx, "publish", l.publish) })
	for _, w := range l.c.Witnesses {
		v := newVisits(w)
		wg.Go(func() {
			l.loop(ctx, "witness "+w.Name, func(ctx context.Context, s State) error { return l.cosign(ctx, v, s) })
		})
	}
	wg.Wait()
}

func (l *Logs) loop(ctx context.Context, task string, do func(context.Context, State) error) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	logged := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		now := map[string]bool{}
		for _, err := range l.each(ctx, do) {
			now[err.Error()] = true
			if !logged[err.Error()] && ctx.Err() == nil {
				l.c.Logger.LogAttrs(ctx, slog.LevelError, "the transparency log stands still", slog.String("task", task),
					slog.String("code", string(counterfoil.CodeOf(err))), slog.Any("error", err))
			}
		}
		if len(now) == 0 && len(logged) > 0 {
			l.c.Logger.LogAttrs(ctx, slog.LevelInfo, "the transparency log goes on", slog.String("task", task))
		}
		logged = now
		rest.Reset(l.c.Interval)
	}
}

// Publish does one round: it publishes every log that has grown. The faults of one log do not keep it from the others.
func (l *Logs) Publish(ctx context.Context) error { return errors.Join(l.each(ctx, l.publish)...) }

// statesAtOnce is how many logs are looked up at once.
const statesAtOnce = 256

// each does something with every log, and returns the faults.
func (l *Logs) each(ctx context.Context, do func(context.Context, State) error) []error {
	var faults []error
	for after := ""; ; {
		states, err := l.c.Store.Logs(ctx, after, statesAtOnce)
		if err != nil {
			return append(faults, err)
		}
		for _, s := range states {
			if err := do(ctx, s); err != nil {
				faults = append(faults, err)
			}
			if ctx.Err() != nil {
				return append(faults, &counterfoil.Error{Code: counterfoil.CodeAborted, Msg: "cancelled", Err: context.Cause(ctx)})
			}
			after = s.Tenant
		}
		if len(states) < statesAtOnce {
			return faults
		}
	}
}

// step is how many leaves one publication adds at most, so that its tiles need little memory. page is how many are read at
// once.
const (
	step = 1 << 16
	page = 1 << 12
)

// publish signs and publishes what the log has gained since its last checkpoint, and nothing that does not continue it.
func (l *Logs) publish(ctx context.Context, s State) error {
	last, err := l.published(ctx, &s)
	if err == nil {
		err = l.keep(ctx, s.Tenant, last) // another process may have published it
	}
	if err != nil || s.Size == s.Published {
		return err
	}
	e := &edge{}
	if last != nil {
		if e, err = l.edgeOf(ctx, s.Tenant, last); err != nil {
			return err
		}
	}
	for e.size < s.Size {
		p := Publication{Tenant: s.Tenant, Size: min(s.Size, e.size+step)}
		if p.Tiles, err = l.grow(ctx, s.Tenant, e, p.Size); err != nil {
			return err
		}
		if last, err = l.sign(ctx, &p, e); errors.Is(err, ErrStale) {
			return nil // another process was faster: the next round sees its checkpoint, and verifies it
		} else if err != nil {
			return err
		}
		l.see(s.Tenant, last)
	}
	return nil
}

// edgeOf reads the edge of a published tree and holds it against the signed root.
func (l *Logs) edgeOf(ctx context.Context, tenant string, c *counterfoil.Checkpoint) (*edge, error) {
	e, err := readEdge(ctx, l.c.Store, tenant, c.Size())
	if err != nil {
		return nil, err
	}
	root, err := e.root()
	if err != nil || root != c.Root() {
		return nil, brokenBy(tenant, fmt.Sprintf("its published tiles are not those of the checkpoint of the size %d", c.Size()), err)
	}
	return e, nil
}

// grow adds leaves from the store until the tree has the size, and returns the tiles that have grown.
func (l *Logs) grow(ctx context.Context, tenant string, e *edge, size int64) ([]Tile, error) {
	before, tiles := e.size, []Tile(nil)
	keep := func(t Tile) { tiles = append(tiles, t) }
	for e.size < size {
		leaves, err := l.c.Store.Leaves(ctx, tenant, e.size, int(min(page, size-e.size)))
		if err != nil {
			return nil, err
		}
		if len(leaves) == 0 {
			return nil, broken(tenant, fmt.Sprintf("it should have %d events and has %d", size, e.size))
		}
		for _, leaf := range leaves {
			if leaf.Sequence != e.size+1 {
				return nil, broken(tenant, fmt.Sprintf("the event %d is missing", e.size+1))
			}
			e.add(leaf.Leaf, keep)
		}
	}
	return append(tiles, e.grown(before)...), nil
}

// sign signs the root, keeps the checkpoint outside and publishes it, in this order: a checkpoint that others may see is
// kept, whatever happens between.
func (l *Logs) sign(ctx context.Context, p *Publication, e *edge) (*counterfoil.Checkpoint, error) {
	root, err := e.root()
	if err != nil {
		return nil, brokenBy(p.Tenant, "its tree has no root", err)
	}
	c, err := counterfoil.SignCheckpoint(ctx, l.c.Audience, p.Tenant, p.Size, root, l.c.Signer)
	if err != nil {
		return nil, err
	}
	if err := l.keep(ctx, p.Tenant, c); err != nil {
		return nil, err
	}
	p.Root, p.Note = root, c.Note()
	return c, l.c.Store.Publish(ctx, *p)
}

// published returns the log's published checkpoint, nil for none, when it is signed and continues what this process has
// seen. It brings a state up to date that is older than that.
func (l *Logs) published(ctx context.Context, s *State) (*counterfoil.Checkpoint, error) {
	seen := l.lastSeen(s.Tenant)
	if seen != nil && s.Published < seen.Size() {
		now, err := l.c.Store.Log(ctx, s.Tenant)
		if err != nil {
			return nil, err
		}
		if now.Published < seen.Size() || now.Size < seen.Size() {
			return nil, shortened(s.Tenant, min(now.Size, now.Published), seen.Size(), "the last checkpoint that this process has seen")
		}
		*s = now
	}
	if s.Published == 0 {
		return nil, nil //nolint:nilnil // a log without a checkpoint is how every log begins
	}
	if s.Size < s.Published {
		return nil, shortened(s.Tenant, s.Size, s.Published, "its own checkpoint")
	}
	if seen != nil && string(seen.Note()) == string(s.Note) {
		return seen, nil
	}
	c, err := l.verified(ctx, *s)
	if err != nil {
		return nil, err
	}
	if seen != nil {
		if err := l.tree(ctx, s.Tenant, c).continues(seen, "seen before"); err != nil {
			return nil, err
		}
	}
	l.see(s.Tenant, c)
	return c, nil
}

// keep keeps a checkpoint outside, unless this process has done that.
func (l *Logs) keep(ctx context.Context, tenant string, c *counterfoil.Checkpoint) error {
	l.mu.Lock()
	done := l.kept[tenant] == c
	l.mu.Unlock()
	if l.c.Keep == nil || c == nil || done {
		return nil
	}
	if err := l.c.Keep.Put(ctx, c); err != nil {
		return err
	}
	l.mu.Lock()
	l.kept[tenant] = c
	l.mu.Unlock()
	return nil
}

// verified parses and verifies the note of a state.
func (l *Logs) verified(ctx context.Context, s State) (*counterfoil.Checkpoint, error) {
	c, err := counterfoil.ParseCheckpoint(s.Note)
	if err != nil {
		return nil, brokenBy(s.Tenant, "its checkpoint is none", err)
	}
	if c.Size() != s.Published {
		return nil, broken(s.Tenant, fmt.Sprintf("its checkpoint has the size %d, and is published as one of %d", c.Size(), s.Published))
	}
	return c, l.verify(ctx, s.Tenant, c)
}

// verify checks a checkpoint's signature, by a key that was valid at the time of the last event that it covers.
func (l *Logs) verify(ctx context.Context, tenant string, c *counterfoil.Checkpoint) error {
	last, err := l.c.Store.Leaves(ctx, tenant, c.Size()-1, 1)
	if err != nil {
		return err
	}
	if len(last) != 1 || last[0].Sequence != c.Size() {
		return broken(tenant, fmt.Sprintf("the event %d is missing", c.Size()))
	}
	if err := c.Verify(l.c.Ring, l.c.Audience, tenant, last[0].At); err != nil {
		return brokenBy(tenant, fmt.Sprintf("its checkpoint of the size %d can't be believed", c.Size()), err)
	}
	return nil
}

// continues checks that a tree has all leaves of an older checkpoint of its log.
func (t *tree) continues(older *counterfoil.Checkpoint, which string) error {
	root, err := t.rootAt(older.Size())
	if err != nil {
		return err
	}
	if root != older.Root() {
		return broken(t.tenant, fmt.Sprintf("it is forked: its checkpoint of the size %d does not continue the one of the size %d that was %s",
			t.size, older.Size(), which))
	}
	return nil
}

func shortened(tenant string, has, should int64, which string) error {
	return broken(tenant, fmt.Sprintf("it is shortened: it has %d events, and %s has %d", has, which, should))
}

func (l *Logs) lastSeen(tenant string) *counterfoil.Checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[tenant]
}

// see remembers a checkpoint, unless a newer one is remembered.
func (l *Logs) see(tenant string, c *counterfoil.Checkpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.seen[tenant]; old == nil || old.Size() <= c.Size() {
		l.seen[tenant] = c
	}
}
