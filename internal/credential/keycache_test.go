package credential_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/credential"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// A stub is a store of one key that counts what it is asked.
type stub struct {
	credential.KeyStore
	mu    sync.Mutex
	held  credential.HeldKey
	err   error
	reads int
	uses  [][]credential.KeyUse
}

func (s *stub) AddKey(_ context.Context, k credential.KeyRow, _ counterfoil.Event) error {
	s.held.KeyRow = k
	return nil
}

func (s *stub) KeyByHash(context.Context, credential.Hash) (credential.HeldKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.held, s.err
}

func (s *stub) UseKeys(_ context.Context, u []credential.KeyUse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = append(s.uses, u)
	return s.err
}

func (s *stub) SweepKeys(context.Context, time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 0, s.err
}

func (s *stub) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stub) written() [][]credential.KeyUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses
}

func stubbed(t testing.TB, s *stub, now func() time.Time, epoch func(context.Context, string) (int64, error)) (*credential.Keys, string) {
	t.Helper()
	k, err := credential.NewKeys(credential.KeysOptions{Store: s, Epoch: epoch, Remembered: 1, Logger: slog.New(slog.DiscardHandler), Recorder: credential.Recorder{
		Names: storetest.Names(), Audience: storetest.Audience, Now: now, Rand: zeros{},
	}})
	must(t, err)
	m, err := k.Mint(t.Context(), person("ada", "keys:write"), credential.Mint{Subject: "bot", Kind: identity.KindAgent, Life: credential.Lifetime{Never: true}})
	must(t, err)
	return k, m.Secret.Reveal()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// A key that is remembered costs no look into the store, until the tenant has moved on; what can't be known lets nobody in.
func TestKeys_remembered(t *testing.T) {
	t.Parallel()
	s, clock := &stub{}, storetest.NewClock()
	epoch, epochErr := int64(4), error(nil)
	k, text := stubbed(t, s, clock.Now, func(context.Context, string) (int64, error) { return epoch, epochErr })
	s.held.Epoch = 5 // what is known of the epoch lags behind
	for range 3 {
		must(t, second(k.Principal(t.Context(), text)))
	}
	if epoch = 5; second(k.Principal(t.Context(), text)) != nil || s.reads != 1 {
		t.Fatalf("%d looks into the store", s.reads)
	}
	epoch, s.held.Epoch = 6, 6
	must(t, second(k.Principal(t.Context(), text)))
	if must(t, second(k.Principal(t.Context(), text))); s.reads != 2 {
		t.Fatalf("%d looks into the store", s.reads)
	}
	epochErr = errors.New("gone away")
	if _, err := k.Principal(t.Context(), text); identity.ReasonOf(err) != identity.ReasonUnavailable {
		t.Fatal(err)
	}
	epochErr = identity.ErrNoTenant
	wantRefused(t, second(k.Principal(t.Context(), text)), "tenant")
	epochErr, s.err, epoch = nil, errors.New("gone away"), 7
	if _, err := k.Principal(t.Context(), text); identity.ReasonOf(err) != identity.ReasonUnavailable {
		t.Fatal(err)
	}
	s.err, s.held.Hash[0] = nil, s.held.Hash[0]+1 // a store that finds another key than was asked for
	wantRefused(t, second(k.Principal(t.Context(), text)), "key")
}

// Uses are written at most once a minute, and once more at the end.
func TestKeys_run(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		k, text := stubbed(t, s, time.Now, func(context.Context, string) (int64, error) { return 1, nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			k.Run(ctx)
			close(done)
		}()
		for range 100 {
			must(t, second(k.Principal(t.Context(), text)))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := len(s.written()); n != 1 {
			t.Fatalf("written %d times in 100 seconds", n)
		}
		s.fail(errors.New("full")) // does no harm
		time.Sleep(time.Minute)
		synctest.Wait()
		s.fail(nil)
		must(t, second(k.Principal(t.Context(), text)))
		last := time.Now()
		cancel()
		<-done
		if w := s.written(); len(w) != 3 || len(w[2]) != 1 || !w[2][0].At.Equal(last) {
			t.Fatalf("written %d times: %v", len(w), w)
		}
	})
}

func FuzzKey(f *testing.F) {
	f.Add("cfk_" + strings.Repeat("A", 43))
	f.Add("cfk_" + strings.Repeat("A", 42) + "B")
	f.Add("cfk_" + strings.Repeat("A", 41) + "\r\n")
	f.Add("cfr_\x00")
	s := &stub{err: credential.ErrNotFound}
	k, err := credential.NewKeys(credential.KeysOptions{
		Store: s, Epoch: func(context.Context, string) (int64, error) { return 1, nil }, Remembered: 1, Logger: slog.New(slog.DiscardHandler),
		Recorder: credential.Recorder{Names: storetest.Names(), Audience: storetest.Audience, Now: time.Now, Rand: zeros{}},
	})
	must(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		s.reads = 0
		if _, err := k.Principal(t.Context(), text); identity.ReasonOf(err) != identity.ReasonInvalid {
			t.Fatal(err)
		}
		again, ok := credential.ParseSecret("cfk_", text)
		if ok && again != text || ok != (s.reads == 1) {
			t.Fatalf("%q, %v, %d reads: %q", text, ok, s.reads, again)
		}
	})
}
