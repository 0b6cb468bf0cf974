package translog_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/counterfoiltest"
	"github.com/counterfoil/counterfoil/internal/translog"
)

func (w *world) check() translog.Check {
	return translog.Check{Tenant: tenant, Audience: audience, Ring: w.ring, Checkpoints: [][]byte{w.store.log(tenant).state.Note}}
}

func (w *world) stored() iter.Seq2[translog.Event, error] {
	return translog.Events(w.ctx(), w.store, tenant)
}

func (w *world) report(c translog.Check, events iter.Seq2[translog.Event, error]) *translog.Report {
	w.t.Helper()
	r, err := c.Run(w.ctx(), events)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// kinds lists findings as "kind sequence".
func kinds(r *translog.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%s %d", f.Kind, f.Sequence))
	}
	return out
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	w.append(counterfoil.PhaseStarted, "under way") // after the checkpoint
	calls := 0
	c := w.check()
	c.Tiles = w.store
	c.Progress = func(done, total int64) {
		if calls++; done != 601 || total != 600 {
			t.Errorf("progress says %d of %d", done, total)
		}
	}
	r := w.report(c, w.stored())
	want := &translog.Report{
		Tenant: tenant, Size: 601, Proven: 600,
		Checkpoints: []translog.Verdict{{Size: 600, Root: w.rootOf(600), Signed: true, Holds: true}},
	}
	if diff := cmp.Diff(want, r); diff != "" || !r.OK() || calls != 1 {
		t.Errorf("OK %v, progress was told %d times\n%s", r.OK(), calls, diff)
	}
}

// edit gives the tests names for what an attacker with the database does.
type edit struct {
	name  string
	do    func(w *world, l *log, c *translog.Check)
	found []string
}

func rewrite(e *translog.Event, from, to string) {
	e.Body = bytes.Replace(e.Body, []byte(from), []byte(to), 1)
	e.Leaf = leafHash(e.Body)
}

func edits() []edit {
	return []edit{
		{"the last three are deleted", func(_ *world, l *log, _ *translog.Check) { l.events = l.events[:597] }, []string{"shortened 0"}},
		{"all are deleted", func(_ *world, l *log, _ *translog.Check) { l.events = nil }, []string{"shortened 0"}},
		{"the first ten are deleted", func(_ *world, l *log, _ *translog.Check) { l.events = l.events[12:] }, []string{"headless 13"}},
		{"one in the middle is deleted", func(_ *world, l *log, _ *translog.Check) {
			l.events = slices.Delete(l.events, 300, 301)
		}, []string{"gap 302"}},
		{"one is deleted and the rest renumbered", func(_ *world, l *log, _ *translog.Check) {
			l.events = slices.Delete(l.events, 300, 301)
			for i := range l.events {
				l.events[i].Sequence = int64(i) + 1
			}
		}, []string{"reordered 301", "shortened 0"}},
		{"a body is edited", func(_ *world, l *log, _ *translog.Check) {
			l.events[300].Body = bytes.Replace(l.events[300].Body, []byte("refused"), []byte("approve"), 1)
		}, []string{"edited 301"}},
		{"a body and its leaf hash are edited", func(_ *world, l *log, _ *translog.Check) {
			rewrite(&l.events[300], "policy-denied", "policy-allows")
		}, []string{"edited 301"}},
		{"two are edited", func(_ *world, l *log, _ *translog.Check) {
			rewrite(&l.events[300], "policy-denied", "policy-allows")
			rewrite(&l.events[303], "policy-denied", "policy-allows")
		}, []string{"edited 301", "edited 304"}},
		{"the time beside one is edited", func(_ *world, l *log, _ *translog.Check) {
			l.events[300].At = l.events[300].At.Add(time.Microsecond)
		}, []string{"edited 301"}},
		{"one is set back in time", func(_ *world, l *log, _ *translog.Check) {
			rewrite(&l.events[300], `"time":"2026-07-10T20:00:00.301Z"`, `"time":"2026-07-10T20:00:00.001Z"`)
			l.events[300].At = start().Add(time.Millisecond)
		}, []string{"edited 301"}},
		{"two are swapped", func(_ *world, l *log, _ *translog.Check) {
			l.events[300], l.events[303] = l.events[303], l.events[300]
			l.events[300].Sequence, l.events[303].Sequence = 301, 304
		}, []string{"reordered 301", "reordered 304"}},
		{"two come in the wrong order", func(_ *world, l *log, _ *translog.Check) {
			l.events[300], l.events[301] = l.events[301], l.events[300]
		}, []string{"reordered 301"}},
		{"one is there twice", func(_ *world, l *log, _ *translog.Check) {
			l.events = slices.Insert(l.events, 300, l.events[299])
		}, []string{"reordered 300"}},
		{"one of another tenant is spliced in", func(w *world, l *log, _ *translog.Check) {
			e := w.event(counterfoil.PhaseRefused, counterfoil.EventParams{Tenant: "other", ExecutionID: "r"})
			w.splice(l, 300, e)
		}, []string{"other-tenant 301"}},
		{"one of another installation is spliced in", func(w *world, l *log, _ *translog.Check) {
			e := w.event(counterfoil.PhaseRefused, counterfoil.EventParams{Audience: "gate.example/staging", ExecutionID: "r"})
			w.splice(l, 300, e)
		}, []string{"other-audience 301"}},
		{"one is not canonical", func(_ *world, l *log, _ *translog.Check) {
			rewrite(&l.events[300], `{"`, `{ "`)
		}, []string{"malformed 301"}},
		{"one is of an unknown phase", func(_ *world, l *log, _ *translog.Check) {
			rewrite(&l.events[300], `"phase":"refused"`, `"phase":"allowed"`)
		}, []string{"malformed 301"}},
		{"a body is dropped that is too young", func(_ *world, l *log, c *translog.Check) {
			l.events[300].Body = nil
			c.KeptSince = l.events[200].At
		}, []string{"dropped 301"}},
		{"a checkpoint by a stranger", func(w *world, _ *log, c *translog.Check) {
			s, err := counterfoil.SignCheckpoint(w.ctx(), audience, tenant, 600, w.rootOf(600), otherKey(w.t))
			if err != nil {
				w.t.Fatal(err)
			}
			c.Checkpoints = [][]byte{s.Note()}
		}, []string{"signature 600"}},
		{"a checkpoint of another log", func(w *world, _ *log, c *translog.Check) {
			s, err := counterfoil.SignCheckpoint(w.ctx(), audience, "other", 600, w.rootOf(600), w.key)
			if err != nil {
				w.t.Fatal(err)
			}
			c.Checkpoints = [][]byte{s.Note()}
		}, []string{"signature 600"}},
		{"two checkpoints of one size", func(w *world, _ *log, c *translog.Check) {
			c.Checkpoints = append(c.Checkpoints, w.sign(600, w.rootOf(599)).Note())
		}, []string{"forked 600"}},
		{"a checkpoint that this one does not continue", func(w *world, _ *log, c *translog.Check) {
			c.Checkpoints = append(c.Checkpoints, w.sign(450, w.rootOf(449)).Note())
		}, []string{"forked 450"}},
		{"a larger checkpoint", func(w *world, _ *log, c *translog.Check) {
			c.Checkpoints = append(c.Checkpoints, w.sign(700, w.rootOf(600)).Note())
		}, []string{"shortened 0"}},
		{"no checkpoint", func(_ *world, _ *log, c *translog.Check) { c.Checkpoints = nil }, []string{"no-checkpoint 0"}},
		{"an older copy", func(w *world, _ *log, c *translog.Check) { w.restore(450) }, []string{"shortened 0"}},
	}
}

func (w *world) splice(l *log, i int, e counterfoil.Event) {
	body := e.Seal(l.events[i].Sequence, l.events[i].At)
	l.events[i].Body, l.events[i].Leaf = body, leafHash(body)
}

// TestCheck_finds lets an attacker at the database, whose tiles and checkpoint they can't make anew.
func TestCheck_finds(t *testing.T) {
	t.Parallel()
	for _, tt := range edits() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.run(200)
			w.publish()
			c := w.check()
			c.Tiles = w.store
			tt.do(w, w.store.log(tenant), &c)
			r := w.report(c, w.stored())
			if diff := cmp.Diff(tt.found, kinds(r)); diff != "" || r.OK() {
				t.Errorf("OK %v\n%s%v", r.OK(), diff, r.Findings)
			}
		})
	}
}

// TestCheck_rebuilt lets the attacker make all leaf hashes and tiles anew. What they can't make is a signature.
func TestCheck_rebuilt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	older := w.sign(150, w.rootOf(150)).Note()
	l := w.store.log(tenant)
	rewrite(&l.events[300], "policy-denied", "policy-allows")
	signed := l.state.Note
	l.state.Published, l.root, l.tiles = 0, translog.Hash{}, map[translog.TileID][]byte{}
	stranger := w.config()
	stranger.Signer, stranger.Keep = otherKey(t), nil
	if err := w.open(stranger).Publish(w.ctx()); err != nil {
		t.Fatal(err)
	}
	c := w.check() // with the stranger's note alone
	c.Tiles = w.store
	if r := w.report(c, w.stored()); !slices.Equal(kinds(r), []string{"signature 600"}) || r.OK() || r.Proven != 0 {
		t.Error("a log that a stranger signed:", r.Findings)
	}
	c.Checkpoints = [][]byte{signed, older}
	r := w.report(c, w.stored())
	if diff := cmp.Diff([]string{"root 600"}, kinds(r)); diff != "" || r.Proven != 150 {
		t.Errorf("proven %d, %s", r.Proven, diff)
	}
	if last := r.Findings[len(r.Findings)-1].Msg; !strings.Contains(last, "151 to 600") {
		t.Errorf("%q does not say between which checkpoints", last)
	}
}

// TestCheck_resigned signs the log anew with the true key: the checkpoint that somebody kept shows it.
func TestCheck_resigned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	kept := w.kept().Note()
	l := w.store.log(tenant)
	rewrite(&l.events[300], "policy-denied", "policy-allows")
	l.state.Published, l.root, l.tiles = 0, translog.Hash{}, map[translog.TileID][]byte{}
	c := w.config()
	c.Keep = nil
	if err := w.open(c).Publish(w.ctx()); err != nil {
		t.Fatal(err)
	}
	check := w.check()
	check.Checkpoints = append(check.Checkpoints, kept)
	if r := w.report(check, w.stored()); !slices.Equal(kinds(r), []string{"forked 600"}) {
		t.Error(r.Findings)
	}
}

// TestCheck_retiredKey re-signs a log with a key whose time was over.
func TestCheck_retiredKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	seed := bytes.Repeat([]byte{7}, 32)
	retired, err := counterfoil.NewPrivateKey(seed, counterfoil.KeyParams{
		Role: counterfoil.RoleCheckpoint, Owner: "gate", Custody: counterfoil.CustodyGateway, Tenants: []string{tenant},
		NotBefore: start().Add(-time.Hour), NotAfter: start().Add(3 * time.Millisecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ring = w.ringOf(w.key.Public(), retired.Public())
	w.refusals(2)
	good := w.signWith(retired, 2)
	w.refusals(8)
	bad := w.signWith(retired, 10)
	w.publish()
	c := w.check()
	c.Checkpoints = append(c.Checkpoints, good)
	if r := w.report(c, w.stored()); !r.OK() {
		t.Error("what it signed in its time stands:", r.Findings)
	}
	c.Checkpoints = [][]byte{bad}
	r := w.report(c, w.stored())
	if !slices.Equal(kinds(r), []string{"retired-key 10"}) || !strings.Contains(r.Findings[0].Msg, string(retired.Public().ID)) || r.OK() {
		t.Error(r.Findings)
	}
}

// TestCheck_newKey signs a log with a key that was made after the last event: rotation while nothing happens.
func TestCheck_newKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(3)
	fresh, err := counterfoil.NewPrivateKey(bytes.Repeat([]byte{9}, 32), counterfoil.KeyParams{
		Role: counterfoil.RoleCheckpoint, Owner: "gate", Custody: counterfoil.CustodyGateway, Tenants: []string{tenant},
		NotBefore: start().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ring = w.ringOf(fresh.Public())
	c := w.check()
	c.Checkpoints = [][]byte{w.signWith(fresh, 3)}
	if r := w.report(c, w.stored()); !r.OK() {
		t.Error(r.Findings)
	}
}

func (w *world) signWith(key *counterfoil.PrivateKey, size int64) []byte {
	w.t.Helper()
	c, err := counterfoil.SignCheckpoint(w.ctx(), audience, tenant, size, w.rootOf(size), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Note()
}

// TestCheck_retired checks that what retention drops is said, and stays proven by its hash.
func TestCheck_retired(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(200)
	w.publish()
	l := w.store.log(tenant)
	if n, err := w.store.Retire(w.ctx(), tenant, l.events[100].At, w.clock, 1000); err != nil || n != 100 {
		t.Fatal(n, err)
	}
	c := w.check()
	c.Tiles, c.KeptSince = w.store, l.events[100].At
	r := w.report(c, w.stored())
	if !r.OK() || r.Dropped != 100 || r.FirstDrop != 1 || r.LastDrop != 100 {
		t.Errorf("%+v", r)
	}
	l.events[50].Leaf[0] ^= 1
	if r := w.report(c, w.stored()); !slices.Equal(kinds(r), []string{"edited 51"}) {
		t.Error("a leaf hash without a body was edited:", r.Findings)
	}
	l.events[50].Leaf[0] ^= 1
	w.refusals(1)
	l.events[600].Body = nil
	if r := w.report(c, w.stored()); !slices.Equal(kinds(r), []string{"dropped 601"}) {
		t.Error("a body that was never published is gone:", r.Findings)
	}
}

// TestCheck_phases lets the ledger itself be at fault: everything is signed.
func TestCheck_phases(t *testing.T) {
	t.Parallel()
	type step struct {
		phase     counterfoil.Phase
		execution string
		use       string
	}
	s := func(phase counterfoil.Phase, execution, use string) step { return step{phase, execution, use} }
	const started, completed = counterfoil.PhaseStarted, counterfoil.PhaseCompleted
	for _, tt := range []struct {
		name  string
		steps []step
		found []string
	}{
		{"in order", []step{s(started, "a", "u"), s(started, "b", "v"), s(completed, "b", "v"), s(completed, "a", "u")}, nil},
		{"under way", []step{s(started, "a", "u")}, nil},
		{"no start", []step{s(completed, "a", "u")}, []string{"phase 1"}},
		{"start after the end", []step{s(completed, "a", "u"), s(started, "a", "u")}, []string{"phase 1", "phase 2"}},
		{"two starts", []step{s(started, "a", "u"), s(started, "a", "u")}, []string{"phase 2"}},
		{"two ends", []step{s(started, "a", "u"), s(completed, "a", "u"), s(completed, "a", "u")}, []string{"phase 3"}},
		{"started again", []step{s(started, "a", "u"), s(completed, "a", "u"), s(started, "a", "w")}, []string{"phase 3"}},
		{"another use", []step{s(started, "a", "u"), s(completed, "a", "v")}, []string{"phase 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			for _, s := range tt.steps {
				w.store.append(w.event(s.phase, counterfoil.EventParams{
					ExecutionID: s.execution, UseDigest: counterfoil.ResultDigest([]byte(s.use)),
				}), w.clock)
			}
			w.publish()
			if diff := cmp.Diff(tt.found, kinds(w.report(w.check(), w.stored()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCheck_time lets the ledger's clock go back: everything is signed.
func TestCheck_time(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(3)
	w.clock = start()
	w.refusals(2)
	w.publish()
	if r := w.report(w.check(), w.stored()); !slices.Equal(kinds(r), []string{"time 4"}) || r.OK() {
		t.Error(r.Findings)
	}
}

// TestCheck_tiles changes the published tiles, and nothing else.
func TestCheck_tiles(t *testing.T) {
	t.Parallel()
	for _, id := range []translog.TileID{{Level: 0, Index: 0}, {Level: 0, Index: 2}, {Level: 1, Index: 0}} {
		w := setup(t)
		w.run(200)
		w.publish()
		w.store.log(tenant).tiles[id][40] ^= 1
		c := w.check()
		c.Tiles = w.store
		if r := w.report(c, w.stored()); r.OK() || len(r.Findings) != 1 || r.Findings[0].Kind != translog.KindTiles {
			t.Error(id, r.Findings)
		}
	}
}

// TestCheck_phasesDropped has an execution end twice whose start was dropped.
func TestCheck_phasesDropped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.append(counterfoil.PhaseStarted, "a")
	w.append(counterfoil.PhaseCompleted, "a")
	w.append(counterfoil.PhaseCompleted, "a")
	w.publish()
	w.store.log(tenant).events[0].Body = nil
	if r := w.report(w.check(), w.stored()); !slices.Equal(kinds(r), []string{"phase 3"}) {
		t.Error(r.Findings)
	}
}

// TestCheck_times reads times back as a database with less precision gives them.
func TestCheck_times(t *testing.T) {
	t.Parallel()
	w := setup(t)
	newYork := time.FixedZone("America/New_York", -4*3600)
	for i, ns := range []int{123_456_789, 999_999_999, 999_999_999} {
		at := start().Add(time.Duration(i)*time.Second + time.Duration(ns)).Truncate(time.Millisecond)
		w.store.append(w.event(counterfoil.PhaseRefused, counterfoil.EventParams{ExecutionID: "r"}), at.In(newYork))
	}
	w.publish()
	if r := w.report(w.check(), w.stored()); !r.OK() {
		t.Error(r.Findings)
	}
}

func TestCheck_bounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(400)
	w.publish()
	for i := range w.store.log(tenant).events {
		w.store.log(tenant).events[i].Body = []byte("x")
	}
	r := w.report(w.check(), w.stored())
	if len(r.Findings) != 256 || r.More != 400-256 || r.OK() {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
}

func TestCheck_errors(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.refusals(1)
	w.publish()
	c := w.check()
	failing := func(yield func(translog.Event, error) bool) { yield(translog.Event{}, errors.New("the disk")) }
	if r, err := c.Run(w.ctx(), failing); err == nil || r.OK() {
		t.Error("a log that can't be read is no log that is right")
	}
	c.Checkpoints = [][]byte{[]byte("rubbish")}
	if r, err := c.Run(w.ctx(), w.stored()); err == nil || r.OK() {
		t.Error("a checkpoint that is none")
	}
	var none *translog.Report
	if none.OK() || (&translog.Report{}).OK() {
		t.Error("an empty report says that all is well")
	}
}

// TestCheck_properties edits an export in any way and expects it to be found.
func TestCheck_properties(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.run(30)
	w.publish()
	whole := w.export()
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	other := setup(t)
	other.names = counterfoiltest.Pseudonyms(t)
	other.run(30)
	other.publish()
	foreign := bytes.SplitAfter(other.export(), []byte("\n"))
	rapid.Check(t, func(t *rapid.T) {
		edited := slices.Clone(lines)
		at := func(label string) int { return rapid.IntRange(1, len(lines)-1).Draw(t, label) }
		i := at("line")
		switch rapid.SampledFrom([]string{"delete", "cut", "duplicate", "move", "swap", "byte", "drop", "foreign"}).Draw(t, "edit") {
		case "delete":
			edited = slices.Delete(edited, i, i+1)
		case "cut":
			edited = edited[:i]
		case "duplicate":
			edited = slices.Insert(edited, at("to"), edited[i])
		case "move":
			line, to := edited[i], at("to")
			edited = slices.Insert(slices.Delete(edited, i, i+1), to, line)
			if to == i {
				t.Skip("nothing moved")
			}
		case "swap":
			j := at("other")
			if edited[i], edited[j] = edited[j], edited[i]; i == j {
				t.Skip("nothing was swapped")
			}
		case "byte":
			line := bytes.Clone(edited[i])
			k := rapid.IntRange(0, len(line)-2).Draw(t, "place")
			line[k] ^= byte(rapid.IntRange(1, 127).Draw(t, "bits"))
			edited[i] = line
		case "drop":
			edited[i] = bytes.Clone(edited[i][bytes.LastIndex(edited[i], []byte(`,"leaf":`)):])
			edited[i][0] = '{'
		case "foreign":
			if edited[i] = foreign[i]; bytes.Equal(foreign[i], lines[i]) {
				t.Skip("the same event")
			}
		}
		x, err := translog.OpenExport(bytes.NewReader(bytes.Join(edited, nil)))
		if err != nil {
			return
		}
		r, err := translog.Check{
			Tenant: tenant, Audience: audience, Ring: w.ring, Checkpoints: [][]byte{x.Checkpoint},
		}.Run(w.ctx(), x.Events())
		if err == nil && r.OK() {
			t.Fatalf("not found: %+v", r)
		}
	})
}

func (w *world) export() []byte {
	w.t.Helper()
	var b bytes.Buffer
	err := translog.Export(w.ctx(), &b, translog.ExportParams{
		Store: w.store, Tenant: tenant, Audience: audience, Checkpoint: w.published(), Format: translog.FormatLines,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Bytes()
}
