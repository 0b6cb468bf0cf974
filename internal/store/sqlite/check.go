package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Check looks at the whole database: every page, index and reference; the rules that its records keep among each other;
// every leaf's hash; and the settings of every connection. It returns a line for each finding. What SQLite reads at once it
// reads in one transaction, so that the write-ahead log grows meanwhile.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	findings, err := pages(ctx, s.read)
	if err != nil {
		return nil, openError("the database", err)
	}
	for _, rule := range rules() {
		var broken int64
		if err := s.get(ctx, `SELECT count(*) FROM (`+rule.query+`)`, nil, &broken); err != nil {
			return nil, err
		}
		if broken > 0 {
			findings = append(findings, fmt.Sprintf("%s: %d", rule.says, broken))
		}
	}
	leaves, err := s.checkLeaves(ctx)
	if err != nil {
		return nil, err
	}
	connections, err := s.checkConnections(ctx)
	return append(append(findings, leaves...), connections...), err
}

// A rule is a query that finds what must not be.
type rule struct{ says, query string }

func rules() []rule {
	return []rule{
		{"events of no log", `SELECT 1 FROM events WHERE NOT EXISTS (SELECT 1 FROM logs WHERE number = place >> 40)`},
		{"logs with gaps", `SELECT number FROM logs JOIN events ON place >> 40 = number GROUP BY number
			HAVING count(*) <> max(place) & 0xffffffffff OR min(place) & 0xffffffffff <> 1`},
		{"events from before the one before them", `SELECT 1 FROM (SELECT at - lag(at) OVER (PARTITION BY place >> 40 ORDER BY place) AS step
			FROM events) WHERE step < 0`},
		{"checkpoints of more events than there are", `SELECT 1 FROM logs WHERE published >
			(SELECT coalesce(max(place), 0) & 0xffffffffff FROM events WHERE place BETWEEN number << 40 AND ((number + 1) << 40) - 1)`},
		{"events without a body that were not retired", `SELECT 1 FROM events JOIN logs ON number = place >> 40
			WHERE (body IS NULL) <> (place & 0xffffffffff <= retired)`},
		{"uses without their started event", `SELECT 1 FROM executions e LEFT JOIN events v ON v.place = e.number
			WHERE v.phase IS NOT 'started' OR v.about IS NOT e.id
			OR e.tenant IS NOT (SELECT tenant FROM logs WHERE number = e.number >> 40)`},
		{"started events without their use", `SELECT 1 FROM events v WHERE phase = 'started' AND NOT EXISTS (SELECT 1 FROM executions WHERE number = v.place)`},
		{"receipts without their completed event", `SELECT 1 FROM executions e LEFT JOIN events v ON v.place = e.settled
			WHERE e.settled IS NOT NULL AND (v.phase IS NOT 'completed' OR v.about IS NOT e.id OR v.place >> 40 <> e.number >> 40)`},
		{"completed events without their receipt", `SELECT 1 FROM events v JOIN logs l ON l.number = v.place >> 40 WHERE phase = 'completed'
			AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.tenant = l.tenant AND e.id = v.about AND e.settled = v.place)`},
		{"outcomes without their receipt", `SELECT 1 FROM executions e JOIN documents d ON d.number = e.number
			WHERE (e.outcome IS NULL) <> NOT EXISTS (SELECT 1 FROM receipts r WHERE r.number = e.number)`},
		{"requests that were spent by nothing", `SELECT 1 FROM requests r WHERE state = 'spent'
			AND NOT EXISTS (SELECT 1 FROM executions e WHERE e.tenant = r.tenant AND e.id = r.execution AND e.request = r.id)`},
	}
}

// checkLeaves hashes every body that is there, page by page.
func (s *Store) checkLeaves(ctx context.Context) ([]string, error) {
	type leaf struct {
		place      int64
		hash, body []byte
	}
	var findings []string
	for after := int64(0); ; {
		page, err := list(ctx, s, `SELECT place, leaf, body FROM events WHERE place > ? AND body IS NOT NULL ORDER BY place LIMIT ?`,
			[]any{after, maxPage}, func(r rowscan.Scanner) (leaf, error) {
				var l leaf
				err := r.Scan(&l.place, &l.hash, &l.body)
				return l, err
			})
		if err != nil || len(page) == 0 {
			return findings, err
		}
		for _, l := range page {
			if leafHash(l.body) != pad(l.hash) {
				findings = append(findings, fmt.Sprintf("event %d of log %d is not what its leaf says", sequence(l.place), l.place>>sequenceBits))
			}
		}
		after = page[len(page)-1].place
	}
}

// checkConnections asks every connection of the readers, and the writer's, for its settings.
func (s *Store) checkConnections(ctx context.Context) (findings []string, err error) {
	s.checking.Lock() // two who each had half of the readers would wait for each other
	defer s.checking.Unlock()
	conns := make([]*sql.Conn, 0, readers)
	defer func() {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
	}()
	for range readers {
		c, err := s.read.Conn(ctx)
		if err != nil {
			return nil, readError(err)
		}
		conns = append(conns, c)
		err = c.Raw(func(c any) error {
			conn, ok := c.(driver.Conn)
			if !ok {
				return fail(counterfoil.CodeInternal, "the database driver has no connections", nil)
			}
			findings = append(findings, differences(ctx, conn, readOnly)...)
			return nil
		})
		if err != nil {
			return nil, readError(err)
		}
	}
	var writer []string
	err = s.commit(ctx, func(t *tx) error {
		writer = differences(context.WithoutCancel(ctx), t.w.conn, readWrite)
		return gateway.ErrNotFound // nothing to commit
	})
	if !errors.Is(err, gateway.ErrNotFound) {
		return nil, err
	}
	return append(findings, writer...), nil
}

// differences are the settings of a connection that are not as they must be.
func differences(ctx context.Context, conn driver.Conn, a access) []string {
	var findings []string
	for _, s := range settings(a) {
		if got, err := pragma(ctx, conn, s.name); err != nil || got != s.shown {
			findings = append(findings, fmt.Sprintf("a connection has %s at %v, not %v", s.name, got, s.shown))
		}
	}
	return findings
}
