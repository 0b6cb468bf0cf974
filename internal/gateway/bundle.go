package gateway

import (
	"context"

	"github.com/counterfoil/counterfoil"
)

// ErrRetired says that retention has dropped an execution's documents and receipt: they are in the export that it made.
const ErrRetired = sentinel("the receipt was dropped by retention; it is in the export that was made then")

// Bundle returns the bundle of a settled execution, in the form that verifiers read.
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
	if redact {
		return b.Encode(), nil
	}
	plain, err := g.open(tenant, kindOperation, o.ID, o.Operation)
	if err != nil {
		return nil, err
	}
	if b.Operation, err = counterfoil.ParseOperation(plain, b.DryRun.Policy()); err != nil {
		return nil, err
	}
	return b.Encode(), nil
}
