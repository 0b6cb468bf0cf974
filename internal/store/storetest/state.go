package storetest

import (
	"context"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// readLog reads a tenant's whole log, page by page.
func readLog(ctx context.Context, s Store, tenant string) ([]translog.Event, error) {
	return pages(func(last translog.Event) ([]translog.Event, error) {
		return s.Events(ctx, tenant, last.Sequence, pageSize)
	})
}

// pages collects all pages. The zero last is before the first.
func pages[T any](next func(last T) ([]T, error)) ([]T, error) {
	var all []T
	var last T
	for {
		page, err := next(last)
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		last = page[len(page)-1]
	}
}

// readState reads all that the store says about the tenant. Nobody may write meanwhile.
func readState(ctx context.Context, s Store) (*state, error) {
	st := &state{found: map[string][2]int64{}}
	var err error
	if st.log, err = s.Log(ctx, Tenant); err != nil {
		return nil, err
	}
	if st.events, err = readLog(ctx, s, Tenant); err != nil {
		return nil, err
	}
	if st.leaves, err = pages(func(last translog.Event) ([]translog.Event, error) {
		return s.Leaves(ctx, Tenant, last.Sequence, pageSize)
	}); err != nil {
		return nil, err
	}
	if st.executions, err = pages(func(last gateway.Execution) ([]gateway.Execution, error) {
		return s.Executions(ctx, Tenant, last.ID, pageSize)
	}); err != nil {
		return nil, err
	}
	if st.requests, err = pages(func(last gateway.RequestRow) ([]gateway.RequestRow, error) {
		return s.Requests(ctx, Tenant, "", last.ID, pageSize)
	}); err != nil {
		return nil, err
	}
	for _, x := range st.executions {
		var at [2]int64
		for i, phase := range []counterfoil.Phase{counterfoil.PhaseStarted, counterfoil.PhaseCompleted} {
			if at[i], err = s.Find(ctx, Tenant, x.ID, phase); err != nil {
				return nil, err
			}
		}
		st.found[x.ID] = at
	}
	return st, nil
}
