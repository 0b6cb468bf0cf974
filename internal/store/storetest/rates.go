package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

func rateKey(tenant, principal string) ratelimit.Key {
	return ratelimit.Key{Subject: ratelimit.Subject{Tenant: tenant, Principal: principal}, Kind: ratelimit.KindRequest}
}

func rateRow(k ratelimit.Key, state string, until time.Time) ratelimit.Row {
	return ratelimit.Row{Key: k, State: []byte(state), Until: until}
}

// setRates replaces what is kept of the rows' keys, which must be in order.
func setRates(s Store, rows ...ratelimit.Row) error {
	keys := make([]ratelimit.Key, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	return s.UpdateRates(context.Background(), keys, func([][]byte) ([]ratelimit.Row, error) { return rows, nil })
}

func wantRate(t testing.TB, s Store, k ratelimit.Key, want string) {
	t.Helper()
	if got, err := s.Rate(t.Context(), k); err != nil || string(got) != want {
		t.Fatalf("the state of %v is %q, %v, want %q", k, got, err, want)
	}
}

// Rates are kept for their key alone, over handles, until they are forgotten or their time is over.
func testRates(t *testing.T, b Backend) {
	clock := NewClock()
	s, other := b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)
	until := clock.Now().Add(time.Minute)
	request := rateKey(Tenant, "agent:a")
	read, write := request, request
	read.Kind, read.Tool = ratelimit.KindRead, "files.get"
	write.Kind, write.Tool = ratelimit.KindWrite, "files.get"
	joined := rateKey(Tenant+"agent", ":a")
	foreign := rateKey(OtherTenant, "agent:a")
	wantRate(t, s, request, "")
	must(t, setRates(s, rateRow(foreign, "5", until)))
	must(t, setRates(s, rateRow(read, "2", until), rateRow(request, "1", until), rateRow(write, "3", until), rateRow(joined, "4", until)))
	for k, want := range map[ratelimit.Key]string{request: "1", read: "2", write: "3", joined: "4", foreign: "5"} {
		wantRate(t, other, k, want)
	}
	var seen [][]byte
	must(t, other.UpdateRates(t.Context(), []ratelimit.Key{read, request}, func(was [][]byte) ([]ratelimit.Row, error) {
		seen = slices.Clone(was)
		return []ratelimit.Row{{}, rateRow(request, "6", until.Add(time.Millisecond))}, nil
	}))
	if d := cmp.Diff([][]byte{[]byte("2"), []byte("1")}, seen); d != "" {
		t.Fatal(d)
	}
	wantRate(t, s, read, "2") // left as it is
	wantRate(t, s, request, "6")

	refused := errors.New("refused")
	if err := s.UpdateRates(t.Context(), []ratelimit.Key{request}, func([][]byte) ([]ratelimit.Row, error) { return nil, refused }); err == nil {
		t.Fatal("the error of the function is lost")
	}
	wantCode(t, s.UpdateRates(t.Context(), []ratelimit.Key{request}, func([][]byte) ([]ratelimit.Row, error) { return nil, nil }), counterfoil.CodeInternal)
	wantRate(t, s, request, "6")

	must(t, s.ExpireRates(t.Context(), until))
	wantRate(t, s, read, "")
	wantRate(t, s, foreign, "")
	wantRate(t, s, request, "6")
	must(t, setRates(s, rateRow(foreign, "7", until)))
	must(t, s.ForgetRates(t.Context(), Tenant))
	wantRate(t, s, request, "")
	wantRate(t, s, foreign, "7")
	must(t, s.Close())
	must(t, other.Close())
	wantRate(t, b.Open(t, clock.Now, nil), foreign, "7")
	if n := len(check(t, b.Open(t, clock.Now, nil))); n != 0 {
		t.Fatalf("%d events for rates", n)
	}
}

// Contenders over several handles each add to the same keys, while others remove what has expired: nothing is lost.
func testRateContenders(t *testing.T, b Backend) {
	clock := NewClock()
	handles := []Store{b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil), b.Open(t, clock.Now, nil)}
	var all []ratelimit.Key
	for _, p := range []string{"a", "b", "c"} {
		all = append(all, rateKey(Tenant, p))
	}
	const contenders, rounds = 9, 10
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() {
			for j := range rounds {
				keys := slices.Delete(slices.Clone(all), (i+j)%len(all), (i+j)%len(all)+1)
				if err := handles[i%3].UpdateRates(t.Context(), keys, func(was [][]byte) ([]ratelimit.Row, error) {
					rows := make([]ratelimit.Row, len(keys))
					for n, b := range was {
						var count uint64
						if len(b) > 0 {
							count = binary.BigEndian.Uint64(b)
						}
						rows[n] = ratelimit.Row{Key: keys[n], State: binary.BigEndian.AppendUint64(nil, count+1), Until: clock.Now().Add(time.Hour)}
					}
					return rows, nil
				}); err != nil {
					t.Error(err)
				}
				if err := handles[i%3].ExpireRates(t.Context(), clock.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := uint64(0)
	for _, k := range all {
		b, err := handles[0].Rate(t.Context(), k)
		must(t, err)
		sum += binary.BigEndian.Uint64(b)
	}
	if sum != 2*contenders*rounds {
		t.Fatalf("%d of %d are counted", sum, 2*contenders*rounds)
	}
}

// An update that fails before its commit has changed nothing; one that fails after it says that this is unknown.
func testRateFaults(t *testing.T, b Backend) {
	clock := NewClock()
	k := rateKey(Tenant, "agent:a")
	for _, stage := range []Stage{Begin, Write, Commit, Committed} {
		armed := false
		s := b.Open(t, clock.Now, func(at Stage) error {
			if armed && at == stage {
				return errors.New("injected")
			}
			return nil
		})
		must(t, setRates(s, rateRow(k, "before", clock.Now())))
		armed = true
		err := setRates(s, rateRow(k, "after", clock.Now()))
		armed = false
		want := "before"
		if stage == Committed {
			want = "after"
			wantCode(t, err, counterfoil.CodeUnknownOutcome)
		} else {
			wantCode(t, err, counterfoil.CodeUnavailable)
		}
		wantRate(t, s, k, want)
		must(t, s.Close())
	}
}

// Pages of rates have requests alone, are complete, in order and bounded, over all tenants or in one.
func testRatePages(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	until := clock.Now().Add(time.Hour)
	var want, local []ratelimit.Row
	for _, tenant := range []string{"a", Tenant} {
		for i := range 5 {
			r := rateRow(rateKey(tenant, fmt.Sprint("p", i)), fmt.Sprint(i), until)
			tool := r
			tool.Key.Kind, tool.Key.Tool = ratelimit.KindRead, "x"
			must(t, setRates(s, tool, r))
			want = append(want, r)
			if tenant == Tenant {
				local = append(local, r)
			}
		}
	}
	var got []ratelimit.Row
	for after := (ratelimit.Subject{}); ; {
		page, err := s.Rates(t.Context(), after, 3)
		must(t, err)
		if got = append(got, page...); len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key.Subject
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	page, err := s.TenantRates(t.Context(), Tenant, "p1", 2)
	must(t, err)
	if d := cmp.Diff(local[2:4], page); d != "" {
		t.Fatal(d)
	}
	for _, limit := range []int{0, -1} {
		if page, err := s.Rates(t.Context(), ratelimit.Subject{}, limit); err != nil || len(page) != 0 {
			t.Fatalf("%d rates for %d, %v", len(page), limit, err)
		}
	}
	if page, err := s.TenantRates(t.Context(), "", "", 10); err != nil || len(page) != 0 {
		t.Fatalf("%d rates of no tenant, %v", len(page), err)
	}
}

// Names that can't be kept are refused, those that can be are kept as they are.
func testRateText(t *testing.T, b Backend) {
	clock := NewClock()
	s := b.Open(t, clock.Now, nil)
	for _, k := range []ratelimit.Key{
		{}, rateKey("", "p"), rateKey("t", ""), rateKey("t", "a\x00b"), rateKey("t", "a\xff"), rateKey("t", strings.Repeat("x", 3000)),
		{Subject: ratelimit.Subject{Tenant: "t", Principal: "p"}, Kind: ratelimit.KindRead},
		{Subject: ratelimit.Subject{Tenant: "t", Principal: "p"}, Kind: ratelimit.KindRequest, Tool: "x"},
		{Subject: ratelimit.Subject{Tenant: "t", Principal: "p"}, Kind: "other", Tool: "x"},
	} {
		wantCode(t, setRates(s, rateRow(k, "x", clock.Now())), counterfoil.CodeInvalidInput)
	}
	for _, name := range []string{"'; DROP TABLE rates; --", "\u202e", "é", "e\u0301", "%", strings.Repeat("\U0001F600", 500)} {
		must(t, setRates(s, rateRow(rateKey(Tenant, name), name, clock.Now())))
		wantRate(t, s, rateKey(Tenant, name), name)
	}
}
