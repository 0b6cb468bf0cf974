package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console/show"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A verification is what "audit verify" was asked.
type verification struct {
	file, keys  string
	checkpoints []string
}

const maxNote = 1 << 16

// notes reads the checkpoints that were given.
func (v *verification) notes() ([][]byte, error) {
	var out [][]byte
	for _, path := range v.checkpoints {
		b, err := readBounded(path, maxNote)
		if err != nil {
			return nil, err
		}
		if _, err := counterfoil.ParseCheckpoint(b); err != nil {
			return nil, fmt.Errorf("%s is no checkpoint: %w", path, err)
		}
		out = append(out, b)
	}
	return out, nil
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the person names the file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return b, err
}

// verifyState checks the database, or an export, against what this state knows.
func (a *app) verifyState(ctx context.Context, s *state, v *verification) error {
	ring, err := s.logRing()
	if err != nil {
		return err
	}
	c := translog.Check{Tenant: tenant, Audience: s.keys.Audience(), Ring: ring}
	if c.Checkpoints, err = v.notes(); err != nil {
		return err
	}
	kept, err := s.kept()
	if err != nil {
		return err
	}
	if kept != nil {
		c.Checkpoints = append(c.Checkpoints, kept.Note())
	}
	if v.file != "" {
		return a.verifyFile(ctx, c, v.file)
	}
	now, err := s.store.Log(ctx, tenant)
	if err != nil {
		return err
	}
	if now.Note != nil {
		c.Checkpoints = append(c.Checkpoints, now.Note)
	}
	if now.Size == 0 && len(c.Checkpoints) == 0 {
		return a.printNothingLogged()
	}
	c.Tiles = s.store
	return a.check(ctx, c, translog.Events(ctx, s.store, tenant))
}

// kept returns the checkpoint that is kept outside of the database, nil for none.
func (s *state) kept() (*counterfoil.Checkpoint, error) {
	keep, err := s.openKeep()
	if err != nil {
		return nil, err
	}
	origin, err := counterfoil.LogOrigin(s.keys.Audience(), tenant)
	if err != nil {
		return nil, err
	}
	return keep.Checkpoint(origin)
}

// verifyAlone checks an export with nothing but the keys and the checkpoints given.
func (a *app) verifyAlone(ctx context.Context, v *verification) error {
	b, err := readBounded(v.keys, maxConfig)
	if err != nil {
		return err
	}
	ring, err := counterfoil.ParseKeyRing(b)
	if err != nil {
		return fmt.Errorf("the keys: %w", err)
	}
	c := translog.Check{Ring: ring}
	if c.Checkpoints, err = v.notes(); err != nil {
		return err
	}
	return a.verifyFile(ctx, c, v.file)
}

// verifyFile checks an export. Whose log it must be is known from the state, or else what it says itself.
func (a *app) verifyFile(ctx context.Context, c translog.Check, path string) (err error) {
	f, err := os.Open(path) //nolint:gosec // the person names the file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	x, err := translog.OpenExport(f)
	if err != nil {
		return err
	}
	if c.Tenant == "" {
		c.Tenant, c.Audience = x.Tenant, x.Audience
	}
	c.Checkpoints = append(c.Checkpoints, x.Checkpoint)
	return a.check(ctx, c, x.Events())
}

// check runs a check and says what it has found.
func (a *app) check(ctx context.Context, c translog.Check, events iter.Seq2[translog.Event, error]) error {
	slices.SortFunc(c.Checkpoints, bytes.Compare)
	c.Checkpoints = slices.CompactFunc(c.Checkpoints, bytes.Equal)
	step, end := a.progress("events")
	c.Progress = step
	r, err := c.Run(ctx, events)
	end()
	if err != nil {
		return err
	}
	if err := a.printVerdict(c, r); err != nil || r.OK() {
		return err
	}
	return &counterfoil.Error{
		Code: counterfoil.CodeIntegrityFailed, Msg: fmt.Sprintf("the log does not verify: %d findings", int64(len(r.Findings))+r.More),
	}
}

// verdictJSON is a verdict as --json prints it.
type verdictJSON struct {
	Verified    bool          `json:"verified"`
	Tenant      string        `json:"tenant"`
	Audience    string        `json:"audience"`
	Events      int64         `json:"events"`
	Proven      int64         `json:"proven"`
	Dropped     int64         `json:"dropped"`
	Checkpoints []verdictMark `json:"checkpoints"`
	Findings    []findingJSON `json:"findings"`
	More        int64         `json:"moreFindings"`
}

type verdictMark struct {
	Size   int64 `json:"size"`
	Signed bool  `json:"signed"`
	Holds  bool  `json:"holds"`
}

type findingJSON struct {
	Kind     string `json:"kind"`
	Sequence int64  `json:"sequence,omitzero"`
	Expected int64  `json:"expected,omitzero"`
	Found    int64  `json:"found,omitzero"`
	Text     string `json:"text"`
}

func (a *app) printVerdict(c translog.Check, r *translog.Report) error {
	if a.asJSON {
		j := verdictJSON{
			Verified: r.OK(), Tenant: c.Tenant, Audience: c.Audience, Events: r.Size, Proven: r.Proven, Dropped: r.Dropped,
			Checkpoints: []verdictMark{}, Findings: []findingJSON{}, More: r.More,
		}
		for _, m := range r.Checkpoints {
			j.Checkpoints = append(j.Checkpoints, verdictMark{m.Size, m.Signed, m.Holds})
		}
		for _, f := range r.Findings {
			j.Findings = append(j.Findings, findingJSON{string(f.Kind), f.Sequence, f.Expected, f.Found, f.Msg})
		}
		return a.printJSON(j)
	}
	verdict := "VERIFIED"
	if !r.OK() {
		verdict = "DOES NOT VERIFY"
	}
	fmt.Fprintf(a.out, "%s\n%-12s %s, tenant %s\n%-12s %d, of them proven by a checkpoint: %d\n",
		verdict, "log", show.Plain(c.Audience), show.Plain(c.Tenant), "events", r.Size, r.Proven)
	if r.Dropped > 0 {
		fmt.Fprintf(a.out, "%-12s %d bodies, by retention, from %d to %d; their hashes hold\n", "dropped", r.Dropped, r.FirstDrop, r.LastDrop)
	}
	for _, m := range r.Checkpoints {
		fmt.Fprintf(a.out, "%-12s of %d events: %s\n", "checkpoint", m.Size, markText(m))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(a.out, "%-12s %s: %s\n", "finding", f.Kind, show.Plain(f.Msg))
	}
	if r.More > 0 {
		fmt.Fprintf(a.out, "%-12s and %d more\n", "finding", r.More)
	}
	return nil
}

func markText(m translog.Verdict) string {
	switch {
	case m.Holds:
		return "signed, and the events are those that it was signed for"
	case m.Signed:
		return "signed, and the events are not those that it was signed for"
	}
	return "not signed by a key that may"
}

func (a *app) printNothingLogged() error {
	if a.asJSON {
		return a.printJSON(verdictJSON{Verified: true, Tenant: tenant, Checkpoints: []verdictMark{}, Findings: []findingJSON{}})
	}
	_, err := fmt.Fprintln(a.out, "nothing was ever logged, and no checkpoint says otherwise")
	return err
}
