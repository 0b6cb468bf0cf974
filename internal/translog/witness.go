package translog

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
)

// A Witness is somebody else's service that signs checkpoints of logs that only grow (c2sp.org/tlog-witness).
type Witness struct {
	// Name is the witness's name, and the owner of its key in the ring, which has the role of a witness.
	Name string
	// URL is the prefix of its service: "add-checkpoint" is asked for below it.
	URL string
}

// answerTimeout bounds one request to a witness, whatever the client allows.
const answerTimeout = 10 * time.Second

// visits is what a process knows of one witness. One goroutine has it.
type visits struct {
	Witness
	at     map[string]int64 // by tenant: the size that the witness has signed last
	signed map[string]int64 // by tenant: the size of the published note that has its signature
}

func newVisits(w Witness) *visits {
	return &visits{Witness: w, at: map[string]int64{}, signed: map[string]int64{}}
}

// Cosign has every witness sign the newest checkpoint of every log that lacks its signature, once.
func (l *Logs) Cosign(ctx context.Context) error {
	var faults []error
	for _, w := range l.c.Witnesses {
		v := newVisits(w)
		faults = append(faults, l.each(ctx, func(ctx context.Context, s State) error { return l.cosign(ctx, v, s) })...)
	}
	return errors.Join(faults...)
}

// cosign has a witness sign a log's published checkpoint, and adds the signature to it.
func (l *Logs) cosign(ctx context.Context, v *visits, s State) error {
	if s.Published == 0 || v.signed[s.Tenant] == s.Published {
		return nil
	}
	c, err := l.published(ctx, &s)
	if err != nil {
		return err
	}
	if has, err := l.cosigned(c, s.Tenant, v.Name); err != nil || has {
		v.signed[s.Tenant] = s.Published
		return err
	}
	lines, err := l.visit(ctx, v, s, c)
	if err != nil {
		return err
	}
	if c, err = l.withLines(c, s.Tenant, v.Name, lines); err != nil {
		return err
	}
	v.at[s.Tenant], v.signed[s.Tenant] = c.Size(), c.Size()
	l.mu.Lock()
	if old := l.witnessed[s.Tenant]; old == nil || old.Size() <= c.Size() {
		l.witnessed[s.Tenant] = c
	}
	l.mu.Unlock()
	return l.attach(ctx, v.Name, s.Tenant, c.Size(), lines)
}

// attach adds a witness's lines to the published note, which may have gained those of another since.
func (l *Logs) attach(ctx context.Context, name, tenant string, size int64, lines []byte) error {
	l.cosigning.Lock()
	defer l.cosigning.Unlock()
	s, err := l.c.Store.Log(ctx, tenant)
	if err != nil || s.Published != size {
		return err // a newer checkpoint is published: the next round asks for that
	}
	c, err := l.published(ctx, &s)
	if err != nil {
		return err
	}
	if has, err := l.cosigned(c, tenant, name); err != nil || has {
		return err
	}
	if c, err = l.withLines(c, tenant, name, lines); err != nil {
		return err
	}
	if err := l.keep(ctx, tenant, c); err != nil {
		return err
	}
	err = l.c.Store.Publish(ctx, Publication{Tenant: tenant, Size: c.Size(), Root: c.Root(), Note: c.Note()})
	if err == nil {
		l.see(tenant, c)
	} else if errors.Is(err, ErrStale) {
		return nil
	}
	return err
}

// cosigned reports whether a checkpoint has a witness's signature.
func (l *Logs) cosigned(c *counterfoil.Checkpoint, tenant, name string) (bool, error) {
	signatures, err := c.Cosignatures(l.c.Ring, tenant)
	return slices.ContainsFunc(signatures, func(s counterfoil.Cosignature) bool { return s.Witness == name }), err
}

// withLines returns the checkpoint with a witness's lines, one of which must be by its key.
func (l *Logs) withLines(c *counterfoil.Checkpoint, tenant, name string, lines []byte) (*counterfoil.Checkpoint, error) {
	c, err := c.AddCosignatures(lines)
	if err == nil {
		var has bool
		if has, err = l.cosigned(c, tenant, name); err == nil && !has {
			err = errors.New("no signature is by the key that the ring has of it")
		}
	}
	if err != nil {
		return nil, fault(counterfoil.CodeSignatureInvalid, tenant, "the answer of the witness "+name+" can't be believed", err)
	}
	return c, nil
}

// visit submits a checkpoint and returns the signature lines that are in the witness's name. A witness that has not told
// yet how much of the log it has seen does so by its first refusal.
func (l *Logs) visit(ctx context.Context, v *visits, s State, c *counterfoil.Checkpoint) ([]byte, error) {
	old := v.at[s.Tenant]
	if old > c.Size() {
		return nil, nil
	}
	for range 2 {
		proof, err := l.tree(ctx, s.Tenant, c).proveFrom(old)
		if err != nil {
			return nil, err
		}
		status, answer, err := l.ask(ctx, v.Witness, submission(old, proof, c.Note()))
		if err != nil {
			return nil, fault(counterfoil.CodeUnavailable, s.Tenant, "the witness "+v.Name+" does not answer", err)
		}
		if status == http.StatusOK {
			return linesOf(answer, v.Name), nil
		}
		seen, err := refusal(v.Name, s, c, old, status, answer)
		if err != nil {
			return nil, err
		}
		v.at[s.Tenant], old = seen, seen
	}
	return nil, fault(counterfoil.CodeUnavailable, s.Tenant, "the witness "+v.Name+" sees the log grow faster than it signs", nil)
}

// refusal makes sense of an answer that is no signature: it returns the size that the witness has seen, if that is where to
// go on from.
func refusal(name string, s State, c *counterfoil.Checkpoint, old int64, status int, answer []byte) (int64, error) {
	switch status {
	case http.StatusConflict:
		text := strings.TrimSuffix(string(answer), "\n")
		seen, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || seen < 0 || text != strconv.FormatInt(seen, 10):
			return 0, fault(counterfoil.CodeUnavailable, s.Tenant, "the witness "+name+" answers with what is no size", err)
		case seen > s.Size:
			return 0, shortened(s.Tenant, s.Size, seen, "the checkpoint that the witness "+name+" has signed")
		case seen > c.Size():
			return 0, fault(counterfoil.CodeUnavailable, s.Tenant, "the witness "+name+" has signed a newer checkpoint already", nil)
		case seen == old:
			return 0, broken(s.Tenant, fmt.Sprintf("it is forked: the witness %s has signed another root of the size %d", name, seen))
		}
		return seen, nil
	case http.StatusUnprocessableEntity:
		return 0, broken(s.Tenant, fmt.Sprintf("it is forked: the witness %s finds that the size %d does not continue the size %d",
			name, c.Size(), old))
	case http.StatusNotFound, http.StatusForbidden:
		return 0, fault(counterfoil.CodeUnavailable, s.Tenant,
			"the witness "+name+" does not know the log or its key; tell it about "+c.Origin(), nil)
	default:
		return 0, fault(counterfoil.CodeUnavailable, s.Tenant, fmt.Sprintf("the witness %s answers with the status %d", name, status), nil)
	}
}

// submission is the body of add-checkpoint.
func submission(old int64, proof [][32]byte, note []byte) []byte {
	b := strconv.AppendInt([]byte("old "), old, 10)
	b = append(b, '\n')
	for _, h := range proof {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	b = append(b, '\n')
	return append(b, note...)
}

func (l *Logs) ask(ctx context.Context, w Witness, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	url := strings.TrimSuffix(w.URL, "/") + "/add-checkpoint"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	resp, err := l.c.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read; there is nothing that could be lost
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxNote+1))
	if err == nil && len(answer) > maxNote {
		err = errors.New("the answer is too long")
	}
	return resp.StatusCode, answer, err
}

// linesOf returns the signature lines in a witness's name. Others are passed over, as the protocol asks.
func linesOf(answer []byte, name string) []byte {
	var out []byte
	for line := range bytes.Lines(answer) {
		if bytes.HasPrefix(line, []byte("— "+name+" ")) {
			out = append(out, line...)
		}
	}
	return out
}
