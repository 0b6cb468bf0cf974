package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// odd are texts that a store keeps exactly, however they look.
func odd() map[string]string {
	return map[string]string{
		"a forged line":   "x\n2026-11-30 approval a-1 granted by admin",
		"terminal":        "\x1b[1A\x1b[2K",
		"bidi":            "\u202eexe.txt",
		"separators":      "\u2028\u2029\u0085",
		"carriage return": "a\rb\r\n",
		"JSON":            `{"a":1,"a":2}`,
		"a formula":       "=cmd()",
		"SQL":             `'; DROP TABLE requests; --"`,
		"wildcards":       `%_\%$1?1:a@b`,
		"spaces":          "  \t ",
		"decomposed":      "e\u0301",
		"composed":        "\u00e9",
		"noncharacters":   "\ufffe\uffff\ufeff",
		"replacement":     "\ufffd",
		"astral":          "\U0001f600\U0010ffff",
		"backslashes":     `\u0000\x00\0`,
	}
}

// broken are texts that PostgreSQL can't keep: both stores refuse them.
func broken() map[string]string {
	return map[string]string{
		"NUL":              "a\x00b",
		"NUL alone":        "\x00",
		"not UTF-8":        "a\xffb",
		"half a character": "\xe2\x80",
		"overlong":         "\xc0\xaf",
		"a surrogate":      "\xed\xa0\x80",
		"beyond Unicode":   "\xf4\x90\x80\x80",
	}
}

// A column is a text that a store keeps, and how it comes back: put stores the text beside all else that n makes different.
type column struct {
	name string
	// found says that rows are found by the text, which bounds it.
	found bool
	put   func(s Store, clock *Clock, n, text string) (back string, err error)
}

// maxName is the longest text by which something is found, in bytes.
const maxName = 1024

func columns(t *testing.T) []column {
	t.Helper()
	return slices.Concat(requestColumns(t), decisionColumns(t), otherColumns(t))
}

// attached stores the text with a request.
func attached(ctx context.Context, t *testing.T, set func(a *gateway.Attachment, text string), back func(r gateway.RequestRow) string) func(Store, *Clock, string, string) (string, error) {
	return func(s Store, clock *Clock, n, text string) (string, error) {
		a := attachment(t, clock, n, "1")
		a.Cap = 1 << 20
		set(&a, text)
		row, err := s.Attach(ctx, a)
		return back(row), err
	}
}

// opened makes a request, and returns its id.
func opened(t *testing.T, s Store, clock *Clock, n string) string {
	t.Helper()
	a := attachment(t, clock, n, "1")
	a.Cap = 1 << 20
	row, err := s.Attach(t.Context(), a)
	must(t, err)
	return row.ID
}

// again reads what was stored with a request.
func again(ctx context.Context, s Store, id string, back func(r gateway.RequestRow) string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	row, err := s.Request(ctx, Tenant, id)
	return back(row), err
}

func requestColumns(t *testing.T) []column {
	t.Helper()
	ctx := t.Context()
	return []column{
		{"requester", false, attached(ctx, t, func(a *gateway.Attachment, s string) { a.New.Requester = s }, func(r gateway.RequestRow) string { return r.Requester })},
		{"upstream", false, attached(ctx, t, func(a *gateway.Attachment, s string) { a.New.Upstream = s }, func(r gateway.RequestRow) string { return r.Upstream })},
		{"tool", false, attached(ctx, t, func(a *gateway.Attachment, s string) { a.New.Tool = s }, func(r gateway.RequestRow) string { return r.Tool })},
		{"effect", false, attached(ctx, t, func(a *gateway.Attachment, s string) { a.New.Effect = s }, func(r gateway.RequestRow) string { return r.Effect })},
		{"key", true, attached(ctx, t, func(a *gateway.Attachment, s string) { a.New.Key = s }, func(r gateway.RequestRow) string { return r.Key })},
		{"waiter", true, func(s Store, clock *Clock, n, text string) (string, error) {
			a := attachment(t, clock, n, "1")
			a.Cap, a.Waiter = 1<<20, text
			row, err := s.Attach(ctx, a)
			if err != nil {
				return "", err
			}
			must(t, s.Leave(ctx, Tenant, row.ID, text, "gone"))
			wantState(t, s, row.ID, gateway.Cancelled) // it was the only one, and was found
			return text, nil
		}},
	}
}

func decisionColumns(t *testing.T) []column {
	t.Helper()
	ctx := t.Context()
	return []column{
		{"reason", false, func(s Store, clock *Clock, n, text string) (string, error) {
			r := ruling(t, clock, opened(t, s, clock, n), gateway.Denied)
			r.Reason = text
			return again(ctx, s, r.ID, func(r gateway.RequestRow) string { return r.Reason }, s.Rule(ctx, r))
		}},
		{"by", false, func(s Store, clock *Clock, n, text string) (string, error) {
			r := ruling(t, clock, opened(t, s, clock, n), gateway.Denied)
			r.By = text
			return again(ctx, s, r.ID, func(r gateway.RequestRow) string { return r.DecidedBy }, s.Rule(ctx, r))
		}},
		{"cause of a lapse", false, func(s Store, clock *Clock, n, text string) (string, error) {
			id := opened(t, s, clock, n)
			err := s.Lapse(ctx, Tenant, id, gateway.Void, text, event(t, counterfoil.PhaseLapsed, id))
			return again(ctx, s, id, func(r gateway.RequestRow) string { return r.Cause }, err)
		}},
		{"cause of leaving", false, func(s Store, clock *Clock, n, text string) (string, error) {
			id := opened(t, s, clock, n)
			return again(ctx, s, id, func(r gateway.RequestRow) string { return r.Cause }, s.Leave(ctx, Tenant, id, "w-"+n+"1", text))
		}},
	}
}

func otherColumns(t *testing.T) []column {
	t.Helper()
	ctx := t.Context()
	return []column{
		{"server", true, func(s Store, clock *Clock, n, text string) (string, error) {
			row := serverRow(clock)
			row.ID = text
			seen, err := s.SeeServer(ctx, row)
			return seen.ID, err
		}},
		{"server's name", false, func(s Store, clock *Clock, n, text string) (string, error) {
			row := serverRow(clock)
			row.ID, row.Name = n, text
			seen, err := s.SeeServer(ctx, row)
			return seen.Name, err
		}},
		{"secret", true, func(s Store, clock *Clock, n, text string) (string, error) {
			return found(s.PutSecret(ctx, "code", text, clock.Now().Add(time.Minute)), text, func() (bool, error) { return s.TakeSecret(ctx, "code", text, clock.Now()) })
		}},
		{"kind", true, func(s Store, clock *Clock, n, text string) (string, error) {
			return found(s.PutSecret(ctx, text, n, clock.Now().Add(time.Minute)), text, func() (bool, error) { return s.HasSecret(ctx, text, n, clock.Now()) })
		}},
		{"counter", true, func(s Store, clock *Clock, n, text string) (string, error) {
			return found(spendUse(ctx, s, newUse(n, clock.Now()), line(text, 7, 9)), text, func() (bool, error) { return counterIs(ctx, s, text, 7) })
		}},
		{"once", true, func(s Store, clock *Clock, n, text string) (string, error) {
			return found(spendUse(ctx, s, newUse(n, clock.Now()), once(clock.Now(), text)), text, func() (bool, error) {
				err := spendUse(ctx, s, newUse(n+"again", clock.Now()), once(clock.Now(), text))
				return errors.Is(err, counterfoil.CodeAlreadyUsed), nil
			})
		}},
		{"mark", true, func(s Store, clock *Clock, n, text string) (string, error) {
			return found(s.Advance(ctx, Tenant, text, 0, 3, event(t, counterfoil.PhaseRevoked, "x")), text, func() (bool, error) {
				v, err := s.Mark(ctx, Tenant, text)
				return v == 3, errors.Join(err, spendUse(ctx, s, newUse(n, clock.Now()), mark(text, 3)))
			})
		}},
	}
}

// found returns the text if it was stored without an error and is found again.
func found(err error, text string, is func() (bool, error)) (string, error) {
	if err != nil {
		return "", err
	}
	ok, err := is()
	if err == nil && !ok {
		return "", nil
	}
	return text, err
}

// Every column that takes text gives back what it was given, or refuses it with a code: the same on every store.
func testHostileText(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i, c := range columns(t) {
		j := 0
		for name, text := range odd() {
			j++
			if back, err := c.put(s, clock, fmt.Sprintf("n%d-%d-", i, j), text); err != nil || back != text {
				t.Errorf("%s, %s: %q came back as %q, %v", c.name, name, text, back, err)
			}
		}
		for name, text := range broken() {
			j++
			before, err := s.Log(t.Context(), Tenant)
			must(t, err)
			_, err = c.put(s, clock, fmt.Sprintf("n%d-%d-", i, j), text)
			if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
				t.Errorf("%s, %s: %v", c.name, name, err)
			}
			// One event may be that of the request that was opened first.
			if after, err := s.Log(t.Context(), Tenant); err != nil || after.Size > before.Size+1 {
				t.Errorf("%s, %s: %d events, %v", c.name, name, after.Size-before.Size, err)
			}
		}
	}
	check(t, s)
	// What was kept can be moved by the store itself too.
	must(t, second(s.Sweep(t.Context(), clock.Now().Add(24*time.Hour))))
	check(t, s)
	for name, text := range broken() {
		nothing(t, s, name, text)
	}
	for name, text := range odd() {
		nothing(t, s, name, text+"!")
	}
}

// nothing checks that there is nothing by that name.
func nothing(t *testing.T, s Store, name, text string) {
	t.Helper()
	ctx := t.Context()
	for what, err := range map[string]error{
		"Request": second(s.Request(ctx, Tenant, text)), "Execution": second(s.Execution(ctx, Tenant, text)), "Server": second(s.Server(ctx, Tenant, text)),
		"Request of a tenant": second(s.Request(ctx, text, "apr")), "Deliver": s.Deliver(ctx, Tenant, text), "Executions": second(s.Executions(ctx, Tenant, text, 5)),
	} {
		if !errors.Is(err, gateway.ErrNotFound) && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("%s, %s: %v", what, name, err)
		}
	}
	log, err1 := s.Log(ctx, text)
	list, err2 := s.Events(ctx, text, 0, 5)
	leaves, err3 := s.Leaves(ctx, text, 0, 5)
	at, err4 := s.Find(ctx, Tenant, text, counterfoil.PhaseStarted)
	tiles, err5 := s.Tiles(ctx, text, []translog.TileID{{}})
	value, err6 := s.Mark(ctx, Tenant, text)
	_, err7 := s.Logs(ctx, text, 5)
	revoked, err8 := s.Revocations(ctx, text, counterfoil.ActorSubject("a"))
	for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
		if err != nil && counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
			t.Errorf("read %d of %s: %v", i+1, name, err)
		}
	}
	if !cmp.Equal(log, translog.State{}) || len(list) != 0 || len(leaves) != 0 || at != 0 || len(tiles) != 0 || value != 0 || len(revoked) != 0 {
		t.Errorf("%s: there is something", name)
	}
}

// Long texts are kept, or refused where something is found by them.
func testLongText(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for i, c := range columns(t) {
		for j, n := range []int{maxName, maxName + 1, 1 << 20} {
			text := strings.Repeat("é", n/2) + strings.Repeat("x", n%2)
			back, err := c.put(s, clock, fmt.Sprintf("n%d-%d-", i, j), text)
			switch {
			case c.found && n > maxName:
				if counterfoil.CodeOf(err) != counterfoil.CodeInvalidInput {
					t.Errorf("%s of %d bytes: %v", c.name, n, err)
				}
			case err != nil || back != text:
				t.Errorf("%s of %d bytes came back as %d: %v", c.name, n, len(back), err)
			}
		}
	}
	check(t, s)
}

// Bytes come back as they were given: what is signed and hashed is never rewritten.
func testBytesKept(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	every := make([]byte, 0, 1<<20)
	for i := range 1 << 20 {
		every = append(every, byte((i^i>>8)&0xff))
	}
	for i, sealed := range [][]byte{
		[]byte(`{"b":1.10,"a":1e2,"z":-0,"n":9007199254740991,"s":"\u2028","k":"\ud83d\ude00","a":2,"x":"\u0000\ud800"}`),
		{0}, {0xff}, []byte("\\x00"), []byte("null"), every,
	} {
		key := fmt.Sprintf("k%d-", i)
		a := attachment(t, clock, key, "1")
		a.Cap, a.New.Details = 1<<20, sealed
		must(t, second(s.Attach(t.Context(), a)))
		r := ruling(t, clock, a.New.ID, gateway.Approved)
		r.Decision = sealed
		must(t, s.Rule(t.Context(), r))
		l := &Ledger{
			Store: sealing{s, sealed}, Case: Approved(t, key, clock.Now()), Spending: gateway.Spending{Request: a.New.ID},
			Settling: gateway.Settling{Request: a.New.ID, Answer: sealed, KeepUntil: clock.Now().Add(time.Hour)},
		}
		claim, err := l.Claim(t.Context(), "run-"+key)
		must(t, err)
		must(t, second(l.Finish(t.Context(), claim, clock.Now())))
		subject := counterfoil.ActorSubject(key)
		must(t, s.Revoke(t.Context(), Tenant, subject, sealed, event(t, counterfoil.PhaseRevoked, "x")))
		server := serverRow(clock)
		server.ID, server.Identity, server.Tools = key, sealed, sealed
		must(t, second(s.SeeServer(t.Context(), server)))
		server.Classes, server.Decision = sealed, sealed
		must(t, s.ClassifyServer(t.Context(), server, event(t, counterfoil.PhaseClassified, "x")))
		x, err := s.Log(t.Context(), Tenant)
		must(t, err)
		must(t, s.Publish(t.Context(), translog.Publication{Tenant: Tenant, Size: x.Size, Note: sealed}))
		for range 2 { // as it is, and after a restart
			wantBytes(t, s, key, a.New.ID, subject, sealed)
			must(t, s.Close())
			s = b.Open(t, clock.Now, nil)
		}
	}
	check(t, s)
}

// sealing spends with the same bytes for all documents that the store does not read.
type sealing struct {
	gateway.Uses
	sealed []byte
}

func wantBytes(t *testing.T, s Store, key, request string, subject counterfoil.Digest, want []byte) {
	t.Helper()
	row, err := s.Request(t.Context(), Tenant, request)
	must(t, err)
	x, err := s.Execution(t.Context(), Tenant, "run-"+key)
	must(t, err)
	server, err := s.Server(t.Context(), Tenant, key)
	must(t, err)
	decisions, err := s.Revocations(t.Context(), Tenant, subject)
	must(t, err)
	log, err := s.Log(t.Context(), Tenant)
	must(t, err)
	for name, got := range map[string][]byte{
		"details": row.Details, "decision": row.Decision, "answer": row.Answer, "approval": x.Approval, "dry run": x.DryRun, "policy": x.Policy,
		"operation": x.Operation, "identity": server.Identity, "tools": server.Tools, "classes": server.Classes, "server's decision": server.Decision,
		"revocation": bytes.Join(decisions, nil), "note": log.Note,
	} {
		if !bytes.Equal(got, want) {
			t.Errorf("%s of %d bytes came back as %d others", name, len(want), len(got))
		}
	}
}

// Spend implements gateway.Uses.
func (s sealing) Spend(ctx context.Context, sp gateway.Spending) (*counterfoil.Consumption, error) {
	sp.Approval, sp.DryRun, sp.Policy, sp.Operation = s.sealed, s.sealed, s.sealed, s.sealed
	return s.Uses.Spend(ctx, sp)
}
