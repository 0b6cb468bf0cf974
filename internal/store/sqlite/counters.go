package sqlite

import (
	"context"
	"errors"
	"math"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// A counter is a line as it is to be. Lines of budgets and uses of grants have names that can't meet.
type counter struct {
	name  string
	value int64
}

func lineName(name string) string { return "line/" + name }

// reserve judges what a spending takes from its lines, and from its grant, and returns how they are to stand. Whether the
// use of a grant is one too many is Consume's to say.
func (t *tx) reserve(sp *gateway.Spending) ([]counter, error) {
	u := &sp.Use
	var out []counter
	for _, c := range sp.Counters {
		value, err := t.counted(out, u.Tenant, lineName(c.Name))
		if err != nil {
			return nil, err
		}
		if c.Add < 1 || c.Limit < c.Add || value > c.Limit-c.Add {
			// The code beside the name that the gateway looks for tells the boundary that this is a definite refusal.
			return nil, fail(counterfoil.CodePolicyDenied, "the budget is used up", gateway.ErrBudget)
		}
		out = append(out, counter{lineName(c.Name), value + c.Add})
	}
	if u.Grant.IsZero() {
		return out, nil
	}
	name := "grant/" + u.Grant.String()
	value, err := t.counted(nil, u.Tenant, name)
	if err != nil {
		return nil, err
	}
	u.GrantCount = value + 1
	return append(out, counter{name, u.GrantCount}), nil
}

// correct returns how lines are to stand after a settling. What happened is recorded whatever it comes to: a sum that no
// number can hold is the largest or smallest there is.
func (t *tx) correct(tenant string, counters []gateway.Counter) ([]counter, error) {
	var out []counter
	for _, c := range counters {
		if err := named(c.Name); err != nil {
			return nil, err
		}
		value, err := t.counted(out, tenant, lineName(c.Name))
		if err != nil {
			return nil, err
		}
		if c.Add > 0 && value > math.MaxInt64-c.Add {
			value = math.MaxInt64
		} else {
			value = max(0, value+c.Add)
		}
		out = append(out, counter{lineName(c.Name), value})
	}
	return out, nil
}

// counted returns where a line stands: as it is to be, if it is among those, or else as it is.
func (t *tx) counted(to []counter, tenant, name string) (int64, error) {
	for i := len(to) - 1; i >= 0; i-- {
		if to[i].name == name {
			return to[i].value, nil
		}
	}
	var value int64
	err := t.get(`SELECT value FROM counters WHERE tenant = ? AND name = ?`, []any{tenant, name}, &value)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return value, err
}

func (t *tx) setCounters(tenant string, counters []counter) error {
	for _, c := range counters {
		if _, err := t.exec(`INSERT INTO counters (tenant, name, value) VALUES (?, ?, ?)
			ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value`, tenant, c.name, c.value); err != nil {
			return err
		}
	}
	return nil
}

const selectMark = `SELECT value FROM marks WHERE tenant = ? AND name = ?`

// Mark implements gateway.Marks.
func (s *Store) Mark(ctx context.Context, tenant, name string) (int64, error) {
	var value int64
	err := s.get(ctx, selectMark, []any{tenant, name}, &value)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return value, err
}

func (t *tx) mark(tenant, name string) (int64, error) {
	var value int64
	err := t.get(selectMark, []any{tenant, name}, &value)
	if errors.Is(err, gateway.ErrNotFound) {
		return 0, nil
	}
	return value, err
}

// Advance implements gateway.Marks.
func (s *Store) Advance(ctx context.Context, tenant, name string, from, to int64, e counterfoil.Event) error {
	if err := named(tenant, name); err != nil {
		return err
	}
	if from < 0 || to <= from || e.Tenant() != tenant {
		return fail(counterfoil.CodeInvalidInput, "a mark only rises", nil)
	}
	return s.commit(ctx, func(t *tx) error {
		value, err := t.mark(tenant, name)
		if err != nil {
			return err
		}
		if value != from {
			return fail(counterfoil.CodePolicyDenied, "the mark stands elsewhere", gateway.ErrChanged)
		}
		if _, err := t.exec(`INSERT INTO marks (tenant, name, value) VALUES (?, ?, ?)
			ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value`, tenant, name, to); err != nil {
			return err
		}
		return second(t.append(tenant, e, s.o.Now()))
	})
}
