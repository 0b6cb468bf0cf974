package postgres

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/counterfoil/counterfoil"
)

// errLapsed says that the process does not count as alive any more: it must register anew before it may spend.
const errLapsed = lapsed("the lease of this process has lapsed")

type lapsed string

func (l lapsed) Error() string { return string(l) }

// clock is the database's, in milliseconds. It alone decides who is alive, so that no replica's clock can.
const clock = `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

// A lease is the sign of life of one open store: a row that is renewed every third of its length, over a connection of its
// own, so that a busy pool can't make a living process look dead. Rows in the database name it. A process whose row has run
// out takes another name: what it had begun under the old one may have been settled by others.
type lease struct {
	cfg *pgx.ConnConfig
	o   Options

	stop context.CancelFunc
	done chan struct{} // closed when run has ended

	mu   sync.Mutex // over a renewal
	conn *pgx.Conn  // nil until it is needed, and after a failure

	name sync.Mutex
	id   string
}

// register takes the lease before anything in the database can name it.
func register(ctx context.Context, cfg *pgx.ConnConfig, o Options) (*lease, error) {
	l := &lease{cfg: cfg, o: o, done: make(chan struct{})}
	if err := l.renew(ctx); err != nil {
		l.drop(ctx)
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	go l.run(run)
	return l, nil
}

func (l *lease) process() string {
	l.name.Lock()
	defer l.name.Unlock()
	return l.id
}

// run renews until it is stopped.
func (l *lease) run(ctx context.Context) {
	defer close(l.done)
	every := time.NewTicker(l.o.Lease / 3)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if err := l.renew(ctx); err != nil && ctx.Err() == nil {
				l.o.Logger.LogAttrs(ctx, slog.LevelWarn, "the lease of this process could not be renewed",
					slog.Any("error", err))
			}
		}
	}
}

// renew makes the lease last for its whole length again, or takes a new one if it has lapsed.
func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, max(l.o.Lease, patience))
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return err
	}
	if err := l.extend(ctx); err != nil {
		l.drop(ctx)
		return fail(counterfoil.CodeUnavailable, "the database could not be told that this process is alive", err)
	}
	return nil
}

// connect opens the connection if there is none. It does not wait for the disk: a sign of life that a crash of the server
// takes back makes the process look dead sooner, and it takes another name.
func (l *lease) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return connectError(err)
	}
	l.conn = conn
	if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
		l.drop(ctx)
		return fail(counterfoil.CodeUnavailable, "the database could not be told that this process is alive", err)
	}
	return nil
}

func (l *lease) extend(ctx context.Context) error {
	old := l.process()
	if old != "" {
		tag, err := l.conn.Exec(ctx, `UPDATE processes SET until = `+clock+` + $2 WHERE id = $1 AND until > `+clock,
			old, l.o.Lease.Milliseconds())
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
	}
	b := make([]byte, 16)
	if _, err := io.ReadFull(l.o.Rand, b); err != nil {
		return err
	}
	id := hex.EncodeToString(b)
	// The callers that wait are still here; nobody has to come back for them.
	if _, err := l.conn.Exec(ctx, `WITH me AS (INSERT INTO processes (id, until) VALUES ($1, `+clock+` + $2))
		UPDATE waiters SET process = $1 WHERE process = $3`, id, l.o.Lease.Milliseconds(), old); err != nil {
		return err
	}
	l.name.Lock()
	defer l.name.Unlock()
	l.id = id
	return nil
}

// drop closes the connection. The next renewal opens another.
func (l *lease) drop(ctx context.Context) {
	if l.conn != nil {
		_ = l.conn.Close(ctx)
	}
	l.conn = nil
}

// end gives the lease up: from then on the process is dead for all others. If that can't be said, the lease runs out.
func (l *lease) end() {
	if l == nil {
		return
	}
	l.stop()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// The end of run may have cut a renewal short, and its connection with it.
	if l.connect(ctx) == nil {
		_, _ = l.conn.Exec(ctx, `DELETE FROM processes WHERE id = $1`, l.process())
	}
	l.drop(ctx)
}
