package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/store/postgres"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// lease is that of the processes that are killed: short, since each death is waited for.
const lease = time.Second

func program() storetest.Program {
	return storetest.Program{
		Open: func(ctx context.Context, place string, fault func(storetest.Stage) error) (storetest.Store, error) {
			o := options(time.Now)
			o.Lease = lease
			if fault != nil {
				o = o.Faulty(fault)
			}
			return postgres.Open(ctx, place, o)
		},
		Dead: lease, Now: time.Now,
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	program().Run(t, func(t *testing.T) string { return server.Fresh(t) })
}
