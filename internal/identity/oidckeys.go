package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json/jsontext"
)

// How an issuer's documents are fetched.
const (
	keysFresh    = 10 * time.Minute // then they are fetched again: a key that the issuer has withdrawn is gone by then
	keysStale    = time.Hour        // while they can't be fetched, the old ones are good for that long
	fetchPause   = 10 * time.Second // between two fetches that a stranger's token may cause
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20 // bytes
	lateFetches  = 100
)

// errFetch says that a document could not be had, errPause that it was had just now.
const (
	errFetch = sentinel("the issuer's document could not be fetched")
	errPause = sentinel("the issuer's keys were fetched just now")
)

// issuerKeys are an issuer's keys as they are known. The library fetches them, in a goroutine that ends with the fetch.
type issuerKeys struct {
	issuer    string
	algorithm string
	fetch     *fetcher
	now       func() time.Time
	busy      chan struct{} // has an element while one looks for the documents

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	at       time.Time // when its documents were fetched
	tried    time.Time // when that was tried last
}

func newIssuerKeys(o *OIDC, now func() time.Time) *issuerKeys {
	u, err := url.Parse(o.Issuer)
	if err != nil {
		u = &url.URL{} // it was checked; nothing is fetchable from here
	}
	return &issuerKeys{
		issuer: o.Issuer, algorithm: o.Algorithm, now: now, busy: make(chan struct{}, 1),
		fetch: &fetcher{base: o.HTTP.Transport, issuer: u, now: now},
	}
}

// verify checks a token's signature by the issuer's keys, and returns until when that may be relied on.
func (k *issuerKeys) verify(ctx context.Context, text string, now time.Time) (time.Time, error) {
	v, at, err := k.current(ctx, text, now)
	if err != nil {
		return time.Time{}, unavailable("issuer", err)
	}
	err = check(ctx, v, text)
	// For a moment the library hands out the end of an earlier fetch: one that was too early then, for a stranger's token.
	for range lateFetches {
		if !errors.Is(err, errPause) || !k.fetch.due() {
			break
		}
		runtime.Gosched()
		err = check(ctx, v, text)
	}
	if errors.Is(err, errFetch) {
		return time.Time{}, unavailable("issuer", err)
	} else if err != nil {
		return time.Time{}, &Error{Reason: ReasonInvalid, Why: "signature", Err: err}
	}
	if until := at.Add(keysFresh); until.After(now.Add(fetchPause)) {
		return until, nil
	}
	return now.Add(fetchPause), nil
}

// check checks a token's signature and its issuer. What keeps it from getting the keys is errFetch.
func check(ctx context.Context, v *oidc.IDTokenVerifier, text string) error {
	var failed error
	_, err := v.Verify(context.WithValue(ctx, failure{}, &failed), text)
	if err != nil && (errors.Is(failed, errFetch) || ctx.Err() != nil) {
		return errors.Join(errFetch, err)
	}
	if err != nil && errors.Is(failed, errPause) {
		return errors.Join(errPause, err)
	}
	return err
}

// current returns what verifies, and when its documents were fetched. One caller fetches; the others wait for it only if there
// is nothing that they could go on with.
func (k *issuerKeys) current(ctx context.Context, text string, now time.Time) (*oidc.IDTokenVerifier, time.Time, error) {
	v, at, due := k.known(now)
	if v != nil && !due {
		return v, at, nil
	}
	if v != nil {
		select {
		case k.busy <- struct{}{}:
		default:
			return v, at, nil
		}
	} else {
		select {
		case k.busy <- struct{}{}:
		case <-ctx.Done():
			return nil, at, ctx.Err()
		}
	}
	defer func() { <-k.busy }()
	if v, at, due = k.known(now); !due { // another was first
		if v == nil {
			return nil, at, errFetch
		}
		return v, at, nil
	}
	fresh, err := k.discover(ctx, text, now)
	switch {
	case err == nil:
		return fresh, now, nil
	case v != nil:
		return v, at, nil
	}
	return nil, at, err
}

// known returns what verifies, nil if there is nothing or it is too old, and whether the documents are to be fetched now.
func (k *issuerKeys) known(now time.Time) (v *oidc.IDTokenVerifier, at time.Time, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age, pause := now.Sub(k.at), now.Sub(k.tried)
	if k.verifier != nil && age >= 0 && age < keysStale {
		v = k.verifier
	}
	stale := v == nil || age >= keysFresh
	return v, k.at, stale && (k.tried.IsZero() || pause < 0 || pause >= fetchPause)
}

// discover fetches the documents. The library asks for the keys when it has a token to verify, so that it is given this one.
func (k *issuerKeys) discover(ctx context.Context, text string, now time.Time) (*oidc.IDTokenVerifier, error) {
	k.mu.Lock()
	k.tried = now
	k.mu.Unlock()
	client := &http.Client{
		Transport: k.fetch, Timeout: fetchTimeout, Jar: nil,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	own := oidc.ClientContext(context.Background(), client) // nothing of the request stays with the keys
	provider, err := oidc.NewProvider(own, k.issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if u, err := url.Parse(document.Keys); err != nil || !fetchable(u, k.fetch.issuer) {
		return nil, errFetch
	}
	keys := watchedKeys{oidc.NewRemoteKeySet(own, document.Keys)}
	k.fetch.renew()
	v := oidc.NewVerifier(k.issuer, keys, &oidc.Config{
		ClientID: "", SkipClientIDCheck: true, SkipExpiryCheck: true, // the audience and the times are checked by our own rules
		SupportedSigningAlgs: []string{k.algorithm}, Now: k.now,
		SkipIssuerCheck: false, InsecureSkipSignatureCheck: false,
	})
	if err := check(ctx, v, text); errors.Is(err, errFetch) {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verifier, k.at = v, now
	return v, nil
}

// watchedKeys tells the caller of a verifier why the keys failed: the verifier itself passes on the text alone.
type watchedKeys struct{ oidc.KeySet }

type failure struct{}

// VerifySignature implements oidc.KeySet.
func (w watchedKeys) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	payload, err := w.KeySet.VerifySignature(ctx, text)
	if to, ok := ctx.Value(failure{}).(*error); ok {
		*to = err
	}
	return payload, err
}

// A fetcher fetches an issuer's documents: complete JSON of at most maxDocument, from where the issuer may have them. Whatever
// else happens is errFetch. Keys are fetched once in fetchPause at most: a forged token with a new "kid" makes the library ask
// for them.
type fetcher struct {
	base   http.RoundTripper
	issuer *url.URL
	now    func() time.Time

	mu     sync.Mutex
	keysAt time.Time
	had    bool // the last fetch went well
}

const discoveryPath = "/.well-known/openid-configuration"

// renew lets the keys be fetched at once: they are for a verifier that has none.
func (f *fetcher) renew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keysAt, f.had = time.Time{}, false
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if !fetchable(r.URL, f.issuer) {
		return nil, errFetch
	}
	isKeys := !strings.HasSuffix(r.URL.Path, discoveryPath)
	if isKeys {
		if err := f.mayAsk(); err != nil {
			return nil, err
		}
	}
	response, err := f.document(r)
	if isKeys {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.had = err == nil
	}
	if err != nil {
		return nil, errors.Join(errFetch, err)
	}
	return response, nil
}

// due reports whether the keys may be fetched.
func (f *fetcher) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	pause := f.now().Sub(f.keysAt)
	return f.keysAt.IsZero() || pause < 0 || pause >= fetchPause
}

func (f *fetcher) mayAsk() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if pause := now.Sub(f.keysAt); !f.keysAt.IsZero() && pause >= 0 && pause < fetchPause {
		if f.had {
			return errPause
		}
		return errFetch
	}
	f.keysAt = now
	return nil
}

// document reads a whole answer and returns it anew.
func (f *fetcher) document(r *http.Request) (*http.Response, error) {
	response, err := f.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	b, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK:
		return nil, errors.New("status " + response.Status)
	case len(b) > maxDocument:
		return nil, errors.New("it is too long")
	case !jsontext.Value(b).IsValid():
		return nil, errors.New("it is not strict JSON")
	}
	response.Body = io.NopCloser(bytes.NewReader(b))
	return response, nil
}

// fetchable reports whether an issuer's document may be fetched from an address: over TLS, or on loopback if the issuer is
// there.
func fetchable(u, issuer *url.URL) bool {
	if u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && onLoopback(u) && onLoopback(issuer)
}

func onLoopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
