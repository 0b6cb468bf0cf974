package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// ErrRetired says that retention has dropped an execution's documents and receipt: they are in the export that it made.
const ErrRetired = sentinel("the receipt was dropped by retention; it is in the export that was made then")

// A Prover proves that a tenant's log has these events, under one checkpoint. It fails with translog.ErrNotLogged while no
// checkpoint covers them.
type Prover interface {
	Prove(ctx context.Context, tenant string, events ...translog.Mention) (*counterfoil.Checkpoint, []counterfoil.Inclusion, error)
}

const (
	proofWait  = 2 * time.Second // how long a bundle waits for the next checkpoint
	proofRetry = 50 * time.Millisecond
)

// Bundle returns the bundle of a settled execution, in the form that verifiers read, with the proof that it is in the log. A
// bundle that has none, because the log can't be proven or its events were dropped, says so to who verifies it, and here the
// log says why.
func (g *Gateway) Bundle(ctx context.Context, tenant, id string, redact bool) ([]byte, error) {
	o, err := g.Store.Execution(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if o.Receipt == nil && o.Outcome != "" {
		return nil, ErrRetired
	}
	if o.Receipt == nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the execution has no receipt yet"}
	}
	b, err := parseExecution(o)
	if err != nil {
		return nil, err
	}
	if b.Log, err = g.proof(ctx, tenant, id, b); err != nil {
		g.Logger.LogAttrs(ctx, slog.LevelWarn, "a bundle has no proof from the log", slog.String("execution", id), slog.String("error", err.Error()))
	}
	if redact {
		return b.Encode(), nil
	}
	plain, err := g.open(tenant, vault.KindOperation, o.ID, o.Operation)
	if err != nil {
		return nil, err
	}
	if b.Operation, err = counterfoil.ParseOperation(plain, b.DryRun.Policy()); err != nil {
		return nil, err
	}
	return b.Encode(), nil
}

// proof waits a little for a checkpoint that covers both events of the execution, and the revocations of what it rests on.
func (g *Gateway) proof(ctx context.Context, tenant, id string, b *counterfoil.Bundle) (*counterfoil.LogProof, error) {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	revoked, err := g.revocations(ctx, tenant, b)
	if err != nil {
		return nil, err
	}
	events := []translog.Mention{{About: id, Phase: counterfoil.PhaseStarted}, {About: id, Phase: counterfoil.PhaseCompleted}}
	for _, d := range revoked {
		events = append(events, translog.Mention{About: d.Digest().String(), Phase: counterfoil.PhaseRevoked})
	}
	retry := time.NewTicker(proofRetry)
	defer retry.Stop()
	for {
		c, list, err := g.Log.Prove(ctx, tenant, events...)
		switch {
		case err == nil && len(list) == len(events):
			return logProof(c, list, revoked), nil
		case !errors.Is(err, translog.ErrNotLogged):
			return nil, err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func logProof(c *counterfoil.Checkpoint, list []counterfoil.Inclusion, revoked []*counterfoil.Decision) *counterfoil.LogProof {
	p := &counterfoil.LogProof{Checkpoint: c, Started: list[0], Completed: list[1]}
	for i, d := range revoked {
		p.Revocations = append(p.Revocations, counterfoil.RevocationProof{Decision: d, Inclusion: list[2+i]})
	}
	slices.SortFunc(p.Revocations, func(a, b counterfoil.RevocationProof) int { return cmp.Compare(a.Index, b.Index) })
	return p
}

// revocations returns the decisions that revoked something that the bundle rests on, in no order.
func (g *Gateway) revocations(ctx context.Context, tenant string, b *counterfoil.Bundle) ([]*counterfoil.Decision, error) {
	var out []*counterfoil.Decision
	for _, subject := range b.RestsOn() {
		decisions, err := g.Store.Revocations(ctx, tenant, subject)
		if err != nil {
			return nil, err
		}
		for _, envelope := range decisions {
			d, err := counterfoil.ParseDecision(envelope)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out[:min(len(out), counterfoil.MaxLoggedRevocations)], nil
}
