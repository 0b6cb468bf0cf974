package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/store/rowscan"
)

// A settlement is a receipt to be recorded.
type settlement struct {
	st       gateway.Settling
	envelope []byte
	digest   [32]byte
}

// Settle implements gateway.Uses.
func (s *Store) Settle(ctx context.Context, st gateway.Settling) error {
	if st.Receipt == nil {
		return fail(counterfoil.CodeInvalidInput, "there is no receipt to settle with", nil)
	}
	r := st.Receipt
	if err := names(r.Tenant(), r.ID()); err != nil {
		return err
	}
	if err := texts(st.Request); err != nil {
		return err
	}
	for _, c := range st.Counters {
		if err := names(c.Name); err != nil {
			return err
		}
	}
	if st.Completed.Phase() != counterfoil.PhaseCompleted {
		return fail(counterfoil.CodeInvalidInput, "a settling is a completed event", nil)
	}
	if err := about(r.Tenant(), r.ID(), st.Completed); err != nil {
		return err
	}
	o := &settlement{st: st, envelope: r.Envelope()}
	o.digest = sha256.Sum256(o.envelope)
	return s.group(ctx, o)
}

func (o *settlement) size() int { return 2*eventSize + len(o.envelope) + len(o.st.Answer) }

func (o *settlement) key() name { return name{o.st.Receipt.Tenant(), o.st.Receipt.ID()} }

func (o *settlement) want(v *view) {
	k := o.key()
	v.tenant(k.tenant)
	v.ids[k] = nil
	for _, c := range o.st.Counters {
		v.counters[name{k.tenant, c.Name}] = &counter{}
	}
	if o.st.Request != "" {
		v.requests[name{k.tenant, o.st.Request}] = &request{}
	}
}

func (*settlement) prepare(time.Time) {}

func (o *settlement) judge(v *view) (bool, error) {
	r, x := o.st.Receipt, v.ids[o.key()]
	switch {
	case x == nil:
		return false, fail(counterfoil.CodeIntegrityFailed, "the receipt is for a use that was never spent", nil)
	case x.approval != r.ApprovalDigest() || x.step != r.Step() || x.use != r.UseDigest():
		return false, fail(counterfoil.CodeIntegrityFailed, "the receipt is for another use", nil)
	case x.receipt == nil:
		return o.first(v, x)
	case bytes.Equal(x.receipt, o.digest[:]):
		return false, nil // the same once more, after an answer that was lost
	default:
		return o.late(v, x)
	}
}

func (o *settlement) first(v *view, x *execution) (bool, error) {
	r := o.st.Receipt
	if err := v.t.append(r.Tenant(), o.st.Completed, r.CompletedAt()); err != nil {
		return false, err
	}
	x.outcome, x.receipt = string(r.Outcome()), o.digest[:]
	for _, c := range o.st.Counters {
		n := v.counters[name{r.Tenant(), c.Name}]
		n.value, n.moved = corrected(n.value, c.Add), true
	}
	if o.st.Request != "" {
		if q := v.requests[name{r.Tenant(), o.st.Request}]; q.state == gateway.Spent && q.execution == r.ID() {
			q.outcome, q.answer, q.keep, q.settled = string(r.Outcome()), o.st.Answer, rowscan.Millis(o.st.KeepUntil), true
		}
	}
	w := &v.settled
	w.tenant, w.sequence, w.outcome = append(w.tenant, x.tenant), append(w.sequence, x.sequence), append(w.outcome, x.outcome)
	w.completed, w.digest, w.body = append(w.completed, rowscan.Millis(r.CompletedAt())), append(w.digest, x.receipt), append(w.body, o.envelope)
	return true, nil
}

// corrected adds to a counter what a settling corrects it by. It stops at both ends.
func corrected(value, add int64) int64 {
	if add > 0 && value > math.MaxInt64-add {
		return math.MaxInt64
	}
	return max(0, value+add)
}

// late records an outcome that comes after the receipt, as an event and nothing else, once for each receipt.
func (o *settlement) late(v *view, x *execution) (bool, error) {
	already := fail(counterfoil.CodeAlreadyUsed, "the use was settled with another receipt", nil)
	k := lateKey{x.place, o.digest}
	known := v.late[k]
	if !known {
		if err := v.t.get(`SELECT EXISTS (SELECT 1 FROM late WHERE tenant = $1 AND sequence = $2 AND digest = $3)`,
			[]any{x.tenant, x.sequence, o.digest[:]}, &known); err != nil {
			return false, err
		}
	}
	if known {
		return false, already
	}
	r := o.st.Receipt
	if err := v.t.append(r.Tenant(), o.st.Completed.Late(), r.CompletedAt()); err != nil {
		return false, err
	}
	v.late[k] = true
	v.t.later(`INSERT INTO late (tenant, sequence, digest) VALUES ($1, $2, $3)`, x.tenant, x.sequence, o.digest[:])
	return true, already
}
