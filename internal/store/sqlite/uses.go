package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// Spend implements gateway.Uses: the guards, the counters, the use, its documents and the started event in one commit. The
// unique index over the use lets one caller through, whatever the guards say.
func (s *Store) Spend(ctx context.Context, sp gateway.Spending) (*counterfoil.Consumption, error) {
	if sp.Use.Audience != s.o.Audience {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the use is for another audience", nil)
	}
	if err := matching(sp.Started, counterfoil.PhaseStarted, sp.Use.Tenant, sp.Use.ExecutionID); err != nil {
		return nil, err
	}
	names := []string{sp.Use.Tenant, sp.Use.ExecutionID, sp.Use.Step}
	for _, c := range sp.Counters {
		names = append(names, c.Name)
	}
	for _, m := range sp.Marks {
		names = append(names, m.Name)
	}
	for _, o := range sp.Once {
		if o.Until.IsZero() {
			return nil, fail(counterfoil.CodeInvalidInput, "a key that can be taken once has an end", nil)
		}
		names = append(names, o.Key)
	}
	if err := named(names...); err != nil {
		return nil, err
	}
	early := s.draft(ctx, &sp.Use)
	var c *counterfoil.Consumption
	err := s.commit(ctx, func(t *tx) (err error) {
		c, err = s.spend(ctx, t, sp, early)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// spend judges everything before it writes anything: who is refused leaves nothing to take back.
func (s *Store) spend(ctx context.Context, t *tx, sp gateway.Spending, early draft) (*counterfoil.Consumption, error) {
	u := &sp.Use
	if err := t.judgeUse(sp); err != nil {
		return nil, err
	}
	h, err := t.head(u.Tenant)
	if err != nil {
		return nil, err
	}
	if h.revoked {
		if err := t.guard(u); err != nil {
			return nil, err
		}
	}
	if err := t.judgeKeys(sp); err != nil {
		return nil, err
	}
	counters, err := t.reserve(&sp)
	if err != nil {
		return nil, err
	}
	c, err := early.take(ctx, s, u, h.at)
	if err != nil {
		return nil, err
	}
	if err := t.claim(sp, counters); err != nil {
		return nil, err
	}
	number, err := t.append(u.Tenant, sp.Started.WithUse(c.Digest()), c.At())
	if err != nil {
		return nil, err
	}
	return c, t.insertExecution(number, s.process.id, sp, c)
}

// ofUse finds the execution of a use, over its index.
const ofUse = ` FROM executions WHERE expires = ? AND substr(approval, 1, 16) = ? AND step = ? AND approval = ?`

func useArgs(u *counterfoil.Use, step string) []any {
	return []any{rowscan.Millis(u.ExpiresAt), u.Approval[:16], step, u.Approval[:]}
}

// judgeUse refuses a use that was spent, a step whose predecessor has no receipt of success, and a request that is not
// approved.
func (t *tx) judgeUse(sp gateway.Spending) error {
	u := &sp.Use
	var used bool
	if err := t.get(`SELECT EXISTS (SELECT 1`+ofUse+`)`, useArgs(u, u.Step), &used); err != nil {
		return err
	}
	if used {
		return fail(counterfoil.CodeAlreadyUsed, "the approval was used before", nil)
	}
	if u.After != "" {
		var before sql.NullString
		err := t.get(`SELECT outcome`+ofUse, useArgs(u, u.After), &before)
		if err != nil && !errors.Is(err, gateway.ErrNotFound) {
			return err
		}
		if before.String != string(counterfoil.OutcomeSucceeded) {
			return fail(counterfoil.CodePolicyDenied, "the step before this one has not succeeded", nil)
		}
	}
	if sp.Request == "" {
		return nil
	}
	conflict := t.conflict(u.Tenant, sp.Request)
	c, ok := errors.AsType[*gateway.ConflictError](conflict)
	switch {
	case !ok && !errors.Is(conflict, gateway.ErrNotFound):
		return conflict
	case ok && c.State == gateway.Approved:
		return nil
	case ok && c.State == gateway.Spent:
		return fail(counterfoil.CodeAlreadyUsed, "the approval was used before", conflict)
	default:
		return fail(counterfoil.CodePolicyDenied, "the request is not approved", conflict)
	}
}

// judgeKeys refuses a once-key that was taken, and a mark that stands elsewhere.
func (t *tx) judgeKeys(sp gateway.Spending) error {
	taken := map[string]bool{}
	for _, o := range sp.Once {
		there := taken[o.Key]
		if !there {
			if err := t.get(`SELECT EXISTS (SELECT 1 FROM once WHERE tenant = ? AND key = ?)`, []any{sp.Use.Tenant, o.Key}, &there); err != nil {
				return err
			}
		}
		if there {
			return fail(counterfoil.CodeAlreadyUsed, "a token or a key of this call was used before", nil)
		}
		taken[o.Key] = true
	}
	for _, m := range sp.Marks {
		value, err := t.mark(sp.Use.Tenant, m.Name)
		if err != nil {
			return err
		}
		if value != m.Value {
			return fail(counterfoil.CodePolicyDenied, "what the decision rests on has changed", gateway.ErrChanged)
		}
	}
	return nil
}

// claim writes what a use takes along.
func (t *tx) claim(sp gateway.Spending, counters []counter) error {
	tenant := sp.Use.Tenant
	if sp.Request != "" {
		if _, err := t.exec(`UPDATE requests SET state = 'spent', execution = ? WHERE tenant = ? AND id = ? AND state = 'approved'`,
			sp.Use.ExecutionID, tenant, sp.Request); err != nil {
			return err
		}
	}
	for _, o := range sp.Once {
		if _, err := t.exec(`INSERT INTO once (tenant, key, until) VALUES (?, ?, ?)`, tenant, o.Key, rowscan.Millis(o.Until)); err != nil {
			return err
		}
	}
	return t.setCounters(tenant, counters)
}

// conflict says where a request stands, as an error.
func (t *tx) conflict(tenant, id string) error {
	var state string
	if err := t.get(`SELECT state FROM requests WHERE tenant = ? AND id = ?`, []any{tenant, id}, &state); err != nil {
		return err
	}
	return &gateway.ConflictError{State: gateway.State(state)}
}

func (t *tx) insertExecution(number int64, process string, sp gateway.Spending, c *counterfoil.Consumption) error {
	u, use := &sp.Use, c.Digest()
	_, err := t.exec(`INSERT INTO executions (number, tenant, id, request, process, approval, step, use, started, expires, consumption)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, number, u.Tenant, u.ExecutionID, optional(sp.Request), process, u.Approval[:], u.Step,
		use[:], rowscan.Millis(c.At()), rowscan.Millis(u.ExpiresAt), c.Envelope())
	if err != nil {
		return err
	}
	policy, err := t.policy(sp.Policy)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO documents (number, approval, dry_run, policy, operation) VALUES (?, ?, ?, ?, ?)`,
		number, sp.Approval, sp.DryRun, policy, sp.Operation)
	return err
}

// policy sees to it that a policy is kept and returns its key, nil for none.
func (t *tx) policy(body []byte) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	sum := sha256.Sum256(body)
	if t.changes.policies[sum] || t.w.known.policies[sum] {
		return sum[:], nil
	}
	_, err := t.exec(`INSERT INTO policies (sha256, body) VALUES (?, ?) ON CONFLICT DO NOTHING`, sum[:], body)
	t.changes.policies[sum] = true
	return sum[:], err
}

func optional(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// Settle implements gateway.Uses.
func (s *Store) Settle(ctx context.Context, st gateway.Settling) error {
	if st.Receipt == nil {
		return fail(counterfoil.CodeInvalidInput, "there is no receipt to settle with", nil)
	}
	if err := matching(st.Completed, counterfoil.PhaseCompleted, st.Receipt.Tenant(), st.Receipt.ID()); err != nil {
		return err
	}
	late := false
	err := s.commit(ctx, func(t *tx) (err error) {
		late, err = s.settle(t, st)
		return err
	})
	if err == nil && late {
		err = fail(counterfoil.CodeAlreadyUsed, "the use has another receipt already; the outcome is in the log as a late one", nil)
	}
	return err
}

// settle reports whether the receipt came after another one.
func (s *Store) settle(t *tx, st gateway.Settling) (late bool, err error) {
	r := st.Receipt
	approval, use, digest := r.ApprovalDigest(), r.UseDigest(), r.Digest()
	var number int64
	var step string
	var a, u, settled []byte
	err = t.get(`SELECT number, approval, step, use, receipt FROM executions WHERE tenant = ? AND id = ?`,
		[]any{r.Tenant(), r.ID()}, &number, &a, &step, &u, &settled)
	if errors.Is(err, gateway.ErrNotFound) {
		return false, fail(counterfoil.CodeIntegrityFailed, "the receipt is for a use that was never spent", nil)
	} else if err != nil {
		return false, err
	}
	if !bytes.Equal(a, approval[:]) || step != r.Step() || !bytes.Equal(u, use[:]) {
		return false, fail(counterfoil.CodeIntegrityFailed, "the receipt is for another use", nil)
	}
	switch {
	case settled == nil:
		return false, t.settleFirst(number, st)
	case bytes.Equal(settled, digest[:]):
		return false, nil // the same once more, after an answer that was lost
	default:
		return true, t.late(number, st)
	}
}

func (t *tx) settleFirst(number int64, st gateway.Settling) error {
	r := st.Receipt
	digest := r.Digest()
	counters, err := t.correct(r.Tenant(), st.Counters)
	if err != nil {
		return err
	}
	place, err := t.append(r.Tenant(), st.Completed, r.CompletedAt())
	if err != nil {
		return err
	}
	n, err := t.exec(`UPDATE executions SET outcome = ?, completed = ?, settled = ?, receipt = ? WHERE number = ? AND outcome IS NULL`,
		string(r.Outcome()), rowscan.Millis(r.CompletedAt()), place, digest[:], number)
	if err != nil {
		return err
	}
	if n != 1 {
		return fail(counterfoil.CodeInternal, "the execution has an outcome but no receipt", nil)
	}
	if _, err := t.exec(`INSERT INTO receipts (number, body) VALUES (?, ?)`, number, r.Envelope()); err != nil {
		return err
	}
	if st.Request != "" {
		if _, err := t.exec(`UPDATE requests SET outcome = ?, answer = ?, keep_until = ?
			WHERE tenant = ? AND id = ? AND state = 'spent' AND execution = ?`,
			string(r.Outcome()), st.Answer, rowscan.Millis(st.KeepUntil), r.Tenant(), st.Request, r.ID()); err != nil {
			return err
		}
	}
	return t.setCounters(r.Tenant(), counters)
}

// late records an outcome that comes after the receipt, as an event and nothing else.
func (t *tx) late(number int64, st gateway.Settling) error {
	digest := st.Receipt.Digest()
	n, err := t.exec(`INSERT INTO late (number, receipt) VALUES (?, ?) ON CONFLICT DO NOTHING`, number, digest[:])
	if err != nil || n == 0 {
		return err
	}
	return second(t.append(st.Receipt.Tenant(), st.Completed.Late(), st.Receipt.CompletedAt()))
}

// Resolve implements gateway.Uses. It writes before it looks: a commit that failed half-way may stand in the write-ahead log,
// where a restart would find it, until the next commit overwrites it. And it waits for its turn behind the commit that the
// caller gave up. So "absent" is final.
func (s *Store) Resolve(ctx context.Context, u counterfoil.Use) (gateway.Resolution, *counterfoil.Consumption, error) {
	var execution string
	var envelope []byte
	err := s.commit(ctx, func(t *tx) error {
		execution, envelope = "", nil
		if err := t.probe(nil); err != nil {
			return err
		}
		err := t.get(`SELECT id, consumption`+ofUse, useArgs(&u, u.Step), &execution, &envelope)
		if errors.Is(err, gateway.ErrNotFound) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return 0, nil, fail(counterfoil.CodeUnavailable, "what became of the use can't be said yet", err)
	case execution == "":
		return gateway.UseAbsent, nil, nil
	case execution != u.ExecutionID:
		return gateway.UseAnothers, nil, nil
	}
	c, err := counterfoil.ParseConsumption(envelope)
	if err != nil {
		return 0, nil, fail(counterfoil.CodeIntegrityFailed, "the use's record is damaged", err)
	}
	return gateway.UseMine, c, nil
}
