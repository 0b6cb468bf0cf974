package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// Spend implements gateway.Uses: the guards, the counter, the use, its documents and the started event in one commit. The
// unique index over the use lets one caller through, whatever the guards say.
func (s *Store) Spend(ctx context.Context, sp gateway.Spending) (*counterfoil.Consumption, error) {
	if sp.Use.Audience != s.o.Audience {
		return nil, fail(counterfoil.CodeIntegrityFailed, "the use is for another audience", nil)
	}
	var c *counterfoil.Consumption
	err := s.commit(ctx, func(t *tx) (err error) {
		c, err = s.spend(ctx, t, sp)
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Store) spend(ctx context.Context, t *tx, sp gateway.Spending) (*counterfoil.Consumption, error) {
	u := &sp.Use
	if _, _, err := t.use(u); err == nil {
		return nil, fail(counterfoil.CodeAlreadyUsed, "the approval was used before", nil)
	} else if !errors.Is(err, gateway.ErrNotFound) {
		return nil, err
	}
	if err := t.guard(u); err != nil {
		return nil, err
	}
	if len(sp.Once) > 0 || len(sp.Marks) > 0 {
		return nil, fail(counterfoil.CodeUnavailable, "this store has neither once-keys nor marks yet", nil)
	}
	if err := t.inOrder(u); err != nil {
		return nil, err
	}
	if err := t.spendRequest(sp); err != nil {
		return nil, err
	}
	if err := t.count(sp); err != nil {
		return nil, err
	}
	if err := t.countGrant(u); err != nil {
		return nil, err
	}
	h, err := t.head(u.Tenant)
	if err != nil {
		return nil, err
	}
	c, err := u.Consume(context.WithoutCancel(ctx), s.o.Now(), h.at, s.o.Signer)
	if err != nil {
		return nil, err
	}
	if err := t.insertExecution(s.process.id, sp, c); err != nil {
		return nil, err
	}
	return c, t.appendAfter(h, u.Tenant, sp.Started.WithUse(c.Digest()), c.At())
}

// use finds a spent use and the execution that spent it.
func (t *tx) use(u *counterfoil.Use) (number int64, execution string, err error) {
	err = t.get(`SELECT number, id FROM executions WHERE expires = ? AND approval = ? AND step = ?`,
		[]any{millis(u.ExpiresAt), u.Approval[:], u.Step}, &number, &execution)
	return number, execution, err
}

// inOrder refuses a step whose predecessor has no receipt of success.
func (t *tx) inOrder(u *counterfoil.Use) error {
	if u.After == "" {
		return nil
	}
	var outcome sql.NullString
	err := t.get(`SELECT outcome FROM executions WHERE expires = ? AND approval = ? AND step = ?`,
		[]any{millis(u.ExpiresAt), u.Approval[:], u.After}, &outcome)
	if err != nil && !errors.Is(err, gateway.ErrNotFound) {
		return err
	}
	if outcome.String != string(counterfoil.OutcomeSucceeded) {
		return fail(counterfoil.CodePolicyDenied, "the step before this one has not succeeded", nil)
	}
	return nil
}

// spendRequest moves the request from approved to spent.
func (t *tx) spendRequest(sp gateway.Spending) error {
	if sp.Request == "" {
		return nil
	}
	n, err := t.exec(`UPDATE requests SET state = 'spent', execution = ? WHERE tenant = ? AND id = ? AND state = 'approved'`,
		sp.Use.ExecutionID, sp.Use.Tenant, sp.Request)
	if err != nil || n == 1 {
		return err
	}
	conflict := t.conflict(sp.Use.Tenant, sp.Request)
	if c, ok := errors.AsType[*gateway.ConflictError](conflict); ok && c.State == gateway.Spent {
		return fail(counterfoil.CodeAlreadyUsed, "the approval was used before", conflict)
	} else if !ok && !errors.Is(conflict, gateway.ErrNotFound) {
		return conflict
	}
	return fail(counterfoil.CodePolicyDenied, "the request is not approved", conflict)
}

// conflict says where a request stands that could not be moved.
func (t *tx) conflict(tenant, id string) error {
	var state string
	if err := t.get(`SELECT state FROM requests WHERE tenant = ? AND id = ?`, []any{tenant, id}, &state); err != nil {
		return err
	}
	return &gateway.ConflictError{State: gateway.State(state)}
}

// count raises the counters, unless one would go over its limit.
func (t *tx) count(sp gateway.Spending) error {
	for _, c := range sp.Counters {
		if c.Add < 1 || c.Limit < c.Add {
			return exhausted()
		}
		n, err := t.exec(`INSERT INTO counters (tenant, name, value) VALUES (?, ?, ?)
			ON CONFLICT (tenant, name) DO UPDATE SET value = value + excluded.value WHERE value <= ? - excluded.value`,
			sp.Use.Tenant, c.Name, c.Add, c.Limit)
		if err != nil {
			return err
		}
		if n == 0 {
			return exhausted()
		}
	}
	return nil
}

// countGrant counts a use of a standing grant. Whether it is one too many is Consume's to say: then the count is taken back
// with everything else.
func (t *tx) countGrant(u *counterfoil.Use) error {
	if u.Grant.IsZero() {
		return nil
	}
	return t.write(`INSERT INTO counters (tenant, name, value) VALUES (?, ?, 1)
		ON CONFLICT (tenant, name) DO UPDATE SET value = value + 1 RETURNING value`,
		[]any{u.Tenant, "grant/" + u.Grant.String()}, &u.GrantCount)
}

// exhausted carries a code beside the name that the gateway looks for, so that the boundary takes it for the definite
// refusal that it is.
func exhausted() error {
	return fail(counterfoil.CodePolicyDenied, "the budget is used up", gateway.ErrBudget)
}

func (t *tx) insertExecution(process string, sp gateway.Spending, c *counterfoil.Consumption) error {
	u, use := &sp.Use, c.Digest()
	var number int64
	err := t.write(`INSERT INTO executions (tenant, id, request, process, approval, step, use, started, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number`,
		[]any{u.Tenant, u.ExecutionID, optional(sp.Request), process, u.Approval[:], u.Step, use[:], millis(c.At()), millis(u.ExpiresAt)},
		&number)
	if err != nil {
		return err
	}
	var policy []byte
	if sp.Policy != nil {
		sum := sha256.Sum256(sp.Policy)
		policy = sum[:]
		if _, err := t.exec(`INSERT INTO policies (sha256, body) VALUES (?, ?) ON CONFLICT DO NOTHING`, policy, sp.Policy); err != nil {
			return err
		}
	}
	_, err = t.exec(`INSERT INTO documents (number, consumption, approval, dry_run, policy, operation) VALUES (?, ?, ?, ?, ?, ?)`,
		number, c.Envelope(), sp.Approval, sp.DryRun, policy, sp.Operation)
	return err
}

func optional(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// Settle implements gateway.Uses.
func (s *Store) Settle(ctx context.Context, st gateway.Settling) error {
	if st.Receipt == nil {
		return fail(counterfoil.CodeInvalidInput, "there is no receipt to settle with", nil)
	}
	return s.commit(ctx, func(t *tx) error { return s.settle(t, st) })
}

func (s *Store) settle(t *tx, st gateway.Settling) error {
	r := st.Receipt
	approval, use := r.ApprovalDigest(), r.UseDigest()
	var number int64
	var step string
	var a, u, body []byte
	err := t.get(`SELECT e.number, e.approval, e.step, e.use, r.body FROM executions e LEFT JOIN receipts r ON r.number = e.number
		WHERE e.tenant = ? AND e.id = ?`, []any{r.Tenant(), r.ID()}, &number, &a, &step, &u, &body)
	if errors.Is(err, gateway.ErrNotFound) {
		return fail(counterfoil.CodeIntegrityFailed, "the receipt is for a use that was never spent", nil)
	} else if err != nil {
		return err
	}
	if !bytes.Equal(a, approval[:]) || step != r.Step() || !bytes.Equal(u, use[:]) {
		return fail(counterfoil.CodeIntegrityFailed, "the receipt is for another use", nil)
	}
	switch {
	case body == nil:
		return t.settleFirst(number, st)
	case bytes.Equal(body, r.Envelope()):
		return nil // the same once more, after an answer that was lost
	default:
		return t.late(st)
	}
}

func (t *tx) settleFirst(number int64, st gateway.Settling) error {
	r := st.Receipt
	n, err := t.exec(`UPDATE executions SET outcome = ?, completed = ? WHERE number = ? AND outcome IS NULL`,
		string(r.Outcome()), millis(r.CompletedAt()), number)
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
			string(r.Outcome()), st.Answer, millis(st.KeepUntil), r.Tenant(), st.Request, r.ID()); err != nil {
			return err
		}
	}
	return t.append(r.Tenant(), st.Completed, r.CompletedAt())
}

// late records an outcome that comes after the receipt, as an event and nothing else.
func (t *tx) late(st gateway.Settling) error {
	h, err := t.head(st.Receipt.Tenant())
	if err != nil {
		return err
	}
	return t.insertEvent(h, st.Receipt.Tenant(), st.Receipt.CompletedAt(), func(sequence int64, at time.Time) []byte {
		// The event is canonical: quotes inside of its values are escaped, so that these bytes are the member and stand
		// once. The member keeps its place, so that the result is canonical too.
		return bytes.Replace(st.Completed.Seal(sequence, at), []byte(`,"phase":"completed",`), []byte(`,"phase":"late-outcome",`), 1)
	})
}

// Resolve implements gateway.Uses.
func (s *Store) Resolve(ctx context.Context, u counterfoil.Use) (gateway.Resolution, *counterfoil.Consumption, error) {
	var execution string
	var envelope []byte
	err := s.get(ctx, `SELECT e.id, d.consumption FROM executions e JOIN documents d ON d.number = e.number
		WHERE e.expires = ? AND e.approval = ? AND e.step = ?`,
		[]any{millis(u.ExpiresAt), u.Approval[:], u.Step}, &execution, &envelope)
	switch {
	case errors.Is(err, gateway.ErrNotFound):
		return gateway.UseAbsent, nil, nil
	case err != nil:
		return 0, nil, err
	case execution != u.ExecutionID:
		return gateway.UseAnothers, nil, nil
	}
	c, err := counterfoil.ParseConsumption(envelope)
	if err != nil {
		return 0, nil, fail(counterfoil.CodeIntegrityFailed, "the use's record is damaged", err)
	}
	return gateway.UseMine, c, nil
}
